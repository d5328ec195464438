"""Snapshots: a paused machine is written to files, a fresh monitor goes on from them."""

from __future__ import annotations

from collections.abc import Awaitable

from pydantic import Field as ModelField

from examples.console.changes.change import BEFORE_START, Change
from examples.console.forms import Field, Fields, Section
from generated_vmm import AsyncVmmClient, SnapshotCreateParams
from generated_vmm.model import ApiModel


class Restoration(ApiModel):
    """What to restore from, as somebody types it."""

    snapshot_path: str = ModelField(
        description="Host path of the file with the state of devices and processors."
    )
    mem_file_path: str = ModelField(description="Host path of the file with the guest's memory.")
    resume_vm: bool = ModelField(
        default=False, description="Otherwise the machine stays paused until you resume it."
    )


def _restore(vm: AsyncVmmClient, fields: Fields) -> Awaitable[None]:
    backend = {"backend_type": "File", "backend_path": fields["mem_file_path"]}
    body = {name: value for name, value in fields.items() if name != "mem_file_path"}
    return vm.snapshot.load({**body, "mem_backend": backend})


CREATE = Section(
    key="snapshot",
    title="Snapshot",
    model=SnapshotCreateParams,
    fields=(
        Field("snapshot_path", "State file"),
        Field("mem_file_path", "Memory file"),
        Field("snapshot_type", "Kind", kind="choice", choices=("Full", "Diff")),
    ),
    send=lambda vm, fields: vm.snapshot.create(fields),
    about={"memory backing": "mem_file_path", "snapshot backing": "snapshot_path"},
)
RESTORE = Section(
    key="restore",
    title="Snapshot",
    model=Restoration,
    fields=(
        Field("snapshot_path", "State file"),
        Field("mem_file_path", "Memory file"),
        Field("resume_vm", "Run it at once", kind="flag"),
    ),
    send=_restore,
    about={"guest memory": "mem_file_path", "snapshot state": "snapshot_path"},
)
SNAPSHOT_CHANGES = (
    Change(
        name="snapshot",
        tab="snapshots",
        button="Create snapshot",
        working="Writing the machine's memory…",
        done="Snapshot created.",
        verb="create snapshots",
        when=frozenset({"Paused"}),
        sections=(CREATE,),
    ),
    Change(
        name="restore",
        tab="snapshots",
        button="Restore snapshot",
        working="Restoring…",
        done="The machine is restored.",
        verb="restore snapshots",
        when=BEFORE_START,
        sections=(RESTORE,),
    ),
)
