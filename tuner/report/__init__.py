"""What a study has found, computed from its stored trials alone."""
