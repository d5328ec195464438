"""A console without its web server that is killed at a chosen moment of a change.

killing.py FOLDER CHANGE MOMENT   does a change to a machine, and kills itself before that moment
killing.py FOLDER look            opens the next console, and prints what it finds
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from examples.console.account import User
from examples.console.carry_out import carry_out
from examples.console.changes import CHANGES, CREATE_FROM_SNAPSHOT
from examples.console.creating import created
from examples.console.demo import samples
from examples.console.events import on_behalf_of
from examples.console.host import Host, Launch
from examples.console.records import Search
from generated_vmm import BootSource, Drive, FullVmConfiguration, MachineConfiguration
from generated_vmm.machines import Definition
from generated_vmm.machines.store import Records
from generated_vmm.transport import AsyncUnixChannel
from tests.vmm.machines.parts import SIMULATED

KERNEL, DISK = "boot_source.kernel_image_path", "root_drive.path_on_host"
ADMIN = User(sub="a", name="Alice Admin", roles=("admin",))
ALICE = ADMIN.person
TEXTS = {
    "clone": {"clone.name": "copy", "clone.run": "true"},
    "named_snapshot": {"named_snapshot.name": "new"},
    "delete": {},
}
RESTORE = "restore"


def host_in(folder: Path) -> Host:
    real, jailer = os.environ.get("FIRECRACKER_BIN"), os.environ.get("JAILER_BIN")
    launch = Launch([real] if real else SIMULATED, folder, outlive=True, jailer=jailer)
    return Host(launch, files_in(folder))


def files_in(folder: Path) -> dict[str, str]:
    """A kernel and a disk that machines may use."""
    kernel = {KERNEL: os.environ["KERNEL"]} if "FIRECRACKER_BIN" in os.environ else {}
    return samples(folder) | kernel


def definition_in(host: Host) -> Definition:
    files = files_in(host.launch.folder)
    disk = Drive(drive_id="rootfs", is_root_device=True, path_on_host=files[DISK])
    configuration = FullVmConfiguration(
        boot_source=BootSource(kernel_image_path=files[KERNEL]),
        drives=[disk],
        machine_config=MachineConfiguration(vcpu_count=1, mem_size_mib=32),
    )
    return Definition(configuration=configuration, jail=host.jail)


def kill_before(moment: int) -> None:
    """Kills this process before a record of the layer is written, or a monitor is called."""
    moments = count()

    def passed() -> None:
        if next(moments) == moment:
            print("killed", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def with_moments(*given: Any) -> Any:
            passed()
            result = call(*given)
            passed()
            return result

        return with_moments

    for name in ("put", "remove"):
        setattr(Records, name, counted(getattr(Records, name)))
    exchange = AsyncUnixChannel.exchange

    async def exchanged(*given: Any) -> Any:
        passed()
        return await exchange(*given)

    AsyncUnixChannel.exchange = exchanged  # type: ignore[method-assign,assignment]


def kill_keepers_of(host: Host) -> None:
    """Kills the keepers of all monitors that run."""
    for one in host.hosted:
        if one.run:
            stat = Path(f"/proc/{one.run}/stat").read_text()
            os.kill(int(stat.rpartition(")")[2].split()[1]), signal.SIGKILL)


async def prepare(host: Host, change: str) -> str:
    """Makes the machines that the change needs; returns the name of the one it is about."""
    name = "victim" if change == "delete" else "web"
    for one in ("web", name):
        machine = host.machines.find(one) or await host.machines.create(one, definition_in(host))
        if one == "web":
            await machine.start()
        host.adopt(machine.id)
        if change == RESTORE and not host.machines.snapshots():
            await machine.snapshot("base")
    return name


async def do(folder: Path, change: str, moment: int) -> None:
    host = host_in(folder)
    await host.open()
    name = await prepare(host, change)
    monitor = host.get(name)
    assert monitor is not None
    kill_before(moment)
    with on_behalf_of(ALICE):
        if change == RESTORE:
            snapshot = host.machines.snapshots()[0].id
            texts = {"new.name": "copy", "new.snapshot": snapshot, "new.run": "true"}
            failure = await created(host, CREATE_FROM_SNAPSHOT, texts)
        else:
            failure = await carry_out(monitor, CHANGES[change], TEXTS[change], ADMIN)
    assert failure is None, failure
    await host.close()


async def look(folder: Path) -> None:
    host = host_in(folder)
    await host.open()
    host.records.settle()
    events = host.records.events(Search(), 20)
    found = {
        "machines": {one.name: await one.state() for one in host.machines.all()},
        "operations": [one.kind for one in host.machines.operations()],
        "snapshots": [one.name for one in host.machines.snapshots()],
        "pending": [one.what for one in events if one.pending],
        "events": [f"{one.by.name}: {one.what} {one.refused}" for one in events],
    }
    for machine in host.machines.all():
        if machine.name != "web":
            await machine.delete()
    for snapshot in host.machines.snapshots():
        if snapshot.name != "base":
            await snapshot.delete()
    host.records._database.write(lambda one: one.execute("DELETE FROM events").rowcount).result()
    await host.close()
    print(json.dumps(found))


if __name__ == "__main__":
    place, what, *moment = sys.argv[1:]
    asyncio.run(do(Path(place), what, int(moment[0])) if moment else look(Path(place)))
