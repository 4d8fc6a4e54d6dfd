"""Values that every room shares: pydantic models and enums. No input, no output, no imports from other rooms."""
