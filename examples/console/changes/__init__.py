"""All changes that an admin can make to a machine, and their panels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from examples.console.changes.change import Change as Change
from examples.console.changes.change import Item as Item
from examples.console.changes.change import Panel as Panel
from examples.console.changes.copies import CLONES, SNAPSHOTS
from examples.console.changes.create import CREATE as CREATE
from examples.console.changes.create import CREATE_FROM_SNAPSHOT as CREATE_FROM_SNAPSHOT
from examples.console.changes.devices import DRIVES, NETWORKS, VSOCKS
from examples.console.changes.memory import BALLOONS, MEMORY_ON_TOP
from examples.console.changes.metadata import ACCESSES, METADATA
from examples.console.changes.power import POWER_CHANGES
from examples.console.changes.setup import POLICIES, SETUP

_ALL: Final = (
    *(DRIVES, NETWORKS, VSOCKS),
    *(BALLOONS, MEMORY_ON_TOP),
    *(METADATA, ACCESSES),
    *(SNAPSHOTS, CLONES),
    POLICIES,
)
_KNOWN: Final = (
    replace(panel, changes=tuple(change for change in panel.changes if change.is_known))
    for panel in _ALL
)
PANELS: Final = tuple(panel for panel in _KNOWN if panel.changes)
"""The changes that the client supports; a client for an older release lacks some."""
CHANGES: Final[Mapping[str, Change]] = {
    change.name: change
    for change in (*POWER_CHANGES, SETUP, *(change for panel in PANELS for change in panel.changes))
}
