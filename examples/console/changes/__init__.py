"""All changes that an admin can make to a machine, and their panels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from examples.console.changes.balloon import BALLOONS
from examples.console.changes.change import Change as Change
from examples.console.changes.change import Item as Item
from examples.console.changes.change import Panel as Panel
from examples.console.changes.clone import CLONES
from examples.console.changes.cpu_template import CPU_TEMPLATES
from examples.console.changes.create import CREATE as CREATE
from examples.console.changes.create import CREATE_FROM_SNAPSHOT as CREATE_FROM_SNAPSHOT
from examples.console.changes.create import PRESETS as PRESETS
from examples.console.changes.drives import DRIVES
from examples.console.changes.hotplugged_memory import HOTPLUGGED_MEMORY
from examples.console.changes.metadata import ACCESSES, METADATA
from examples.console.changes.network import NETWORKS
from examples.console.changes.outlets import ALL_METRICS, LOGS, SERIALS
from examples.console.changes.persistent_memory import PERSISTENT_MEMORY
from examples.console.changes.policy import POLICIES
from examples.console.changes.power import POWER_CHANGES
from examples.console.changes.setup import SETUP
from examples.console.changes.single_devices import RANDOM_NUMBERS, VSOCKS
from examples.console.changes.snapshots import RESTORATION, SNAPSHOTS

_ALL: Final = (
    *(DRIVES, NETWORKS, PERSISTENT_MEMORY, VSOCKS, RANDOM_NUMBERS),
    *(BALLOONS, HOTPLUGGED_MEMORY),
    *(METADATA, ACCESSES),
    *(SNAPSHOTS, CLONES, RESTORATION),
    *(POLICIES, LOGS, SERIALS, ALL_METRICS, CPU_TEMPLATES),
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
