"""Settings that every test shares."""

from hypothesis import settings

# The same examples in every run, and no limit on how long one takes: what fails, fails for everybody.
settings.register_profile("majorcert", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("majorcert")
