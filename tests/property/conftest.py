"""Property tests are quick and always the same; `HYPOTHESIS_PROFILE=search` looks further, with new seeds."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "same", derandomize=True, deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("search", settings.get_profile("same"), derandomize=False, max_examples=5_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))
