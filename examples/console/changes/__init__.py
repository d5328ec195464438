"""Everything an admin can do to a machine, in one table."""

from __future__ import annotations

from collections.abc import Mapping

from examples.console.changes.balloon import BALLOON_CHANGES
from examples.console.changes.change import Change
from examples.console.changes.create import CREATE, PRESETS
from examples.console.changes.devices import DEVICE_CHANGES
from examples.console.changes.metadata import METADATA_CHANGES
from examples.console.changes.power import POWER_CHANGES
from examples.console.changes.setup import SETUP
from examples.console.changes.snapshots import SNAPSHOT_CHANGES

CHANGES: Mapping[str, Change] = {
    change.name: change
    for change in (
        *POWER_CHANGES,
        SETUP,
        *DEVICE_CHANGES,
        *BALLOON_CHANGES,
        *METADATA_CHANGES,
        *SNAPSHOT_CHANGES,
    )
}

__all__ = ["CHANGES", "CREATE", "PRESETS", "Change"]
