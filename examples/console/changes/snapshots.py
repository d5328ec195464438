"""Snapshots: a paused machine is written to files, from which a new monitor continues."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field as ModelField

from examples.console.changes.change import (
    AFTER_START,
    BEFORE_START,
    WHILE_PAUSED,
    Change,
    Panel,
    Parsed,
)
from examples.console.changes.power import hosted
from examples.console.events import person
from examples.console.fields import Field, rare
from examples.console.forms import Section
from examples.console.hosted import HostedMonitor
from examples.console.machine import Machine
from examples.console.monitors import Monitor
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


async def _restore(monitor: Monitor, parsed: Parsed) -> None:
    await monitor.control.snapshot.load(parsed[RESTORE.key])


def _overwrites(parsed: Parsed) -> str:
    """The question before files are overwritten that are there."""
    wanted = [text for fields in parsed.values() for text in fields.values()]
    there = [text for text in wanted if isinstance(text, str) and Path(text).is_file()]
    return f"Overwrite {' and '.join(there)}?" if there else ""


async def _write(monitor: HostedMonitor, parsed: Parsed) -> None:
    await monitor.machine.snapshot(str(parsed[NAMED.key]["name"]), by=person().name)


def _snapshot(key: str, kind: str) -> Section:
    return Section(
        key=key,
        title="Snapshot",
        model=SnapshotCreateParams,
        fields=(
            Field("snapshot_path", "State file"),
            Field("mem_file_path", "Memory file"),
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
        Field("snapshot_path", "State file"),
        Field("mem_backend.backend_path", "Memory file"),
        Field("resume_vm", "Run it at once", kind="flag"),
        Field("track_dirty_pages", "Track changed memory", kind="flag"),
        *rare(
            (
                Field("clock_realtime", "Set the guest's clock to the present", kind="flag"),
                Field("network_overrides", "Other tap devices", "pairs"),
                Field("vsock_override.uds_path", "Other socket of the vsock"),
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

    name: str = ModelField(description="Snapshots may have the same name.", max_length=80)


NAMED = Section(
    key="named_snapshot",
    title="Snapshot",
    model=SnapshotName,
    fields=(Field("name", "Name"),),
    about={"": "name"},
)
SNAPSHOTS = Panel(
    key="create",
    changes=(
        Change(
            name="named_snapshot",
            right="operate",
            when=AFTER_START,
            sections=(NAMED,),
            act=hosted(_write),
            hosted=True,
            unfolded=True,
        ),
        Change(
            name="snapshot",
            foreign=True,
            when=WHILE_PAUSED,
            sections=(FULL,),
            asks=_overwrites,
            unfolded=True,
        ),
        Change(
            name="diff",
            foreign=True,
            when=WHILE_PAUSED,
            unless=_tracks_nothing,
            sections=(DIFF,),
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
            act=_restore,
            foreign=True,
            unfolded=True,
        ),
    ),
)
