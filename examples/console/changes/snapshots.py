"""Snapshots: a paused machine is written to files, a fresh monitor goes on from them."""

from __future__ import annotations

from typing import Final

from pydantic import Field as ModelField

from examples.console.changes.change import BEFORE_START, WHILE_PAUSED, Change, Panel
from examples.console.changes.power import hosted
from examples.console.fields import Field, rare
from examples.console.forms import Section
from examples.console.machine import Machine
from generated_vmm import SnapshotCreateParams, SnapshotLoadParams
from generated_vmm.model import ApiModel

TAB: Final = "snapshots"


def _tracks_nothing(machine: Machine) -> str:
    configured = machine.configuration.machine_config
    if configured is not None and configured.track_dirty_pages:
        return ""
    return "This machine does not track changed memory. Turn it on in the setup, before the start."


def _set_up(machine: Machine) -> str:
    empty = not machine.is_set_up and not machine.configuration.drives
    return "" if empty else "This machine is set up already: only an empty one can be restored."


def _snapshot(key: str, kind: str) -> Section:
    return Section(
        key=key,
        title="Snapshot",
        model=SnapshotCreateParams,
        fields=(
            Field("snapshot_path", "State file", places=("snapshots",)),
            Field("mem_file_path", "Memory file", places=("snapshots",)),
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
        Field("mem_backend.backend_path", "Memory file", places=("snapshots", "machine")),
        Field(
            "resume_vm",
            "Run it at once",
            kind="flag",
            hint="Otherwise it stays paused until you resume it.",
        ),
        Field("track_dirty_pages", "Track changed memory", kind="flag"),
        *rare(
            (
                Field("clock_realtime", "Set the guest's clock to the present", kind="flag"),
                Field(
                    "network_overrides",
                    "Other tap devices",
                    "pairs",
                    hint="As in eth0=tap7, separated by spaces.",
                ),
                Field(
                    "vsock_override.uds_path",
                    "Other socket of the vsock",
                    places=("machine",),
                    hint="Needed while the machine of the snapshot still runs.",
                ),
                Field(
                    "mem_backend.backend_type",
                    "The memory comes from",
                    "choice",
                    choices=("File", "Uffd"),
                    hint="Uffd: another process serves it, at a socket given in place of the file.",
                ),
            )
        ),
    ),
    send=lambda vm, fields: vm.snapshot.load(fields),
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
    """What a snapshot is called."""

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
    title="Create a snapshot",
    about="Writes the state and the memory of a paused machine to two files of this host. Its "
    "disks are not in them.",
    changes=(
        Change(
            name="named_snapshot",
            tab=TAB,
            title="New snapshot",
            about="Writes the whole memory.",
            button="Create snapshot",
            working="Writing the machine's memory…",
            done="Snapshot created.",
            verb="create snapshots",
            when=WHILE_PAUSED,
            sections=(NAMED,),
            act=hosted(lambda monitor, parsed: monitor.snapshot(str(parsed[NAMED.key]["name"]))),
            hosted=True,
            unfolded=True,
        ),
        Change(
            name="update_snapshot",
            tab=TAB,
            title="Write what has changed into the last snapshot",
            button="Bring the last snapshot up to date",
            working="Writing what has changed…",
            done="The snapshot has the changes.",
            verb="create snapshots",
            when=WHILE_PAUSED,
            unless=_tracks_nothing,
            confirm="The last snapshot is of this moment then.",
            act=hosted(lambda monitor, parsed: monitor.update_snapshot()),
            hosted=True,
        ),
        Change(
            name="snapshot",
            foreign=True,
            tab=TAB,
            title="Full snapshot",
            about="Writes the whole memory.",
            button="Create snapshot",
            working="Writing the machine's memory…",
            done="Snapshot created.",
            verb="create snapshots",
            when=WHILE_PAUSED,
            sections=(FULL,),
            unfolded=True,
        ),
        Change(
            name="diff",
            foreign=True,
            tab=TAB,
            title="Changes since the last snapshot",
            about="Writes only the memory that has changed since the last snapshot. Into the files "
            "of that one, which is of this moment then, unless a machine runs from them: such "
            "files must not be written to. Into new files it cannot be restored alone.",
            button="Write the changes",
            working="Writing what has changed…",
            done="The snapshot has the changes.",
            verb="create snapshots",
            when=WHILE_PAUSED,
            unless=_tracks_nothing,
            sections=(DIFF,),
        ),
    ),
)
RESTORATION = Panel(
    key="restoration",
    title="Restore a snapshot",
    about="An empty machine goes on where the one of the snapshot was. If restoring fails, the "
    "monitor ends.",
    changes=(
        Change(
            name="restore",
            tab=TAB,
            title="Restore into this machine",
            button="Restore snapshot",
            working="Restoring…",
            done="The machine is restored.",
            verb="restore snapshots",
            when=BEFORE_START,
            unless=_set_up,
            sections=(RESTORE,),
            unfolded=True,
        ),
    ),
)
