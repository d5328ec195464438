"""Snapshots: a paused machine is written to files, from which a new monitor continues."""

from __future__ import annotations

from pydantic import Field as ModelField

from examples.console.changes.change import BEFORE_START, WHILE_PAUSED, Change, Panel, Parsed
from examples.console.changes.power import hosted
from examples.console.fields import Field, rare
from examples.console.forms import Section
from examples.console.hosted import HostedMonitor
from examples.console.library import MEMORY
from examples.console.machine import Machine
from examples.console.monitors import Monitor
from examples.console.restoring import restore, snapshot, update_snapshot
from generated_vmm import SnapshotCreateParams, SnapshotLoadParams
from generated_vmm.model import ApiModel


def _tracks_nothing(machine: Machine) -> str:
    configured = machine.configuration.machine_config
    if configured is not None and configured.track_dirty_pages:
        return ""
    return "This machine does not track changed memory. Turn it on in the setup, before the start."


def _set_up(machine: Machine) -> str:
    empty = not machine.is_set_up and not machine.configuration.drives
    return "" if empty else "This machine is set up already: only an empty one can be restored."


async def go_on(monitor: Monitor, parsed: Parsed) -> None:
    """Restore a snapshot; a machine of this console gets copies of the disks."""
    fields = parsed[RESTORE.key]
    if isinstance(monitor, HostedMonitor):
        await restore(monitor, SnapshotLoadParams.model_validate(fields, strict=False))
    else:
        await monitor.control.snapshot.load(fields)


def _snapshot(key: str, kind: str) -> Section:
    return Section(
        key=key,
        title="Snapshot",
        model=SnapshotCreateParams,
        fields=(
            Field("snapshot_path", "State file", places=("snapshots",)),
            Field("mem_file_path", "Memory file", places=("snapshots",), suffix=MEMORY),
        ),
        send=lambda vm, fields: vm.snapshot.create(fields),
        fixed={"snapshot_type": kind},
        about={"memory backing": "mem_file_path", "snapshot backing": "snapshot_path"},
    )


FULL = _snapshot("snapshot", "Full")
DIFF = _snapshot("diff", "Diff")
RESTORE = Section(
    key="restore",
    title="Snapshot",
    model=SnapshotLoadParams,
    fields=(
        Field("snapshot_path", "State file", places=("snapshots",)),
        Field(
            "mem_backend.backend_path",
            "Memory file",
            places=("snapshots", "machine"),
            suffix=MEMORY,
        ),
        Field("resume_vm", "Run it at once", kind="flag"),
        Field("track_dirty_pages", "Track changed memory", kind="flag"),
        *rare(
            (
                Field("clock_realtime", "Set the guest's clock to the present", kind="flag"),
                Field("network_overrides", "Other tap devices", "pairs"),
                Field("vsock_override.uds_path", "Other socket of the vsock", places=("machine",)),
                Field(
                    "mem_backend.backend_type",
                    "The memory comes from",
                    "choice",
                    choices=("File", "Uffd"),
                ),
            )
        ),
    ),
    fixed={"mem_backend.backend_type": "File"},
    about={
        "guest memory": "mem_backend.backend_path",
        "unknown network": "network_overrides",
        "tap device": "network_overrides",
        "vsockunixbackend": "vsock_override.uds_path",
        "unknown vsock": "vsock_override.uds_path",
        "snapshot state": "snapshot_path",
    },
)


class SnapshotName(ApiModel):
    """The name of a snapshot."""

    name: str = ModelField(description="Nothing is overwritten: a name that is taken is refused.")


NAMED = Section(
    key="named_snapshot",
    title="Snapshot",
    model=SnapshotName,
    fields=(Field("name", "Name"),),
    about={"name": "name", "snapshot called": "name"},
)
SNAPSHOTS = Panel(
    key="create",
    changes=(
        Change(
            name="named_snapshot",
            when=WHILE_PAUSED,
            sections=(NAMED,),
            act=hosted(lambda monitor, parsed: snapshot(monitor, str(parsed[NAMED.key]["name"]))),
            hosted=True,
            unfolded=True,
        ),
        Change(
            name="update_snapshot",
            when=WHILE_PAUSED,
            unless=_tracks_nothing,
            act=hosted(lambda monitor, parsed: update_snapshot(monitor)),
            hosted=True,
        ),
        Change(name="snapshot", foreign=True, when=WHILE_PAUSED, sections=(FULL,), unfolded=True),
        Change(
            name="diff", foreign=True, when=WHILE_PAUSED, unless=_tracks_nothing, sections=(DIFF,)
        ),
    ),
)
RESTORATION = Panel(
    key="restoration",
    changes=(
        Change(
            name="restore",
            when=BEFORE_START,
            unless=_set_up,
            sections=(RESTORE,),
            act=go_on,
            unfolded=True,
        ),
    ),
)
