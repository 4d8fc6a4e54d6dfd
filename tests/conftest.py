"""On a loaded machine a slow example is no fault."""

from hypothesis import settings

settings.register_profile("no deadline", deadline=None, max_examples=60)
settings.load_profile("no deadline")
