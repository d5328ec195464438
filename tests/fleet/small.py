"""A fleet as small as a fleet can be: two machines with one worker each, on any free ports."""

from __future__ import annotations

from typing import Final

from examples.fleet.fleet import Shape

SMALL: Final = Shape(port=0, provider_port=0, workers_each=1)
PATIENCE: Final = 60
"""Seconds for one answer, on a machine that has other things to do."""
