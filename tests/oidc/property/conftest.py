"""A deadline for each example would measure the machine, not the code."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("repository", deadline=None)
settings.load_profile("repository")
