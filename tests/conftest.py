"""Settings of Hypothesis for every test."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# A deadline for each example would measure the machine and not the code. In CI the examples are the
# same each time: a new one is found where somebody can look at it.
settings.register_profile(
    "repository",
    deadline=None,
    derandomize=os.environ.get("CI") == "true",
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("repository")
