"""Machines: what they are made of, who may change them, and what is refused."""

import asyncio
import errno
import os
import shutil
import stat
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import anyio
import pytest

from generated_vmm import Drive, NetworkInterface, VmmApiError
from generated_vmm.machines import Definition, Jail, Machine, MachineBusy, MachineError, Machines
from generated_vmm.transport._async.unix import AsyncUnixChannel
from tests.vmm.machines.parts import async_machines_in, at_calls, definition, machines_in


def own_disk(folder: Path, machine: Machine) -> Path:
    (drive,) = machine.definition.configuration.drives or []
    return folder / "machines" / "machines" / machine.id / str(drive.path_on_host)


def drive(name: str, path: object, **members: Any) -> Drive:
    return Drive(drive_id=name, is_root_device=False, path_on_host=str(path), **members)


def image(folder: Path, name: str) -> Drive:
    """A drive that machines may share."""
    return drive("a", folder / name, is_read_only=True)


def with_devices(made: Definition, **devices: object) -> Definition:
    """The definition with other devices; its kernel finds its root, whichever drives there are."""
    source = made.configuration.boot_source
    assert source is not None
    rooted = source.model_copy(update={"boot_args": "root=/dev/vda"})
    changes = {"boot_source": rooted, **devices}
    return made.replace(configuration=made.configuration.model_copy(update=changes))


def test_a_machine_has_a_copy_of_its_disk_and_nobody_else_may_read_it(
    folder: Path, machines: Machines, web: Machine
) -> None:
    disk = own_disk(folder, web)
    assert disk.read_bytes() == (folder / "disk").read_bytes()
    assert not disk.samefile(folder / "disk")
    for path in (folder / "machines").rglob("*"):
        allowed = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == allowed, path


def test_a_snapshot_and_a_clone_have_the_disk_of_their_moment(
    folder: Path, machines: Machines, web: Machine
) -> None:
    web.start()
    own_disk(folder, web).write_bytes(b"then" * 1024)
    snapshot = web.snapshot("first")
    copy = web.clone("copy")
    own_disk(folder, web).write_bytes(b"now." * 1024)
    back = snapshot.restore("back", run=False)
    for machine in (copy, back):
        assert own_disk(folder, machine).read_bytes() == b"then" * 1024
    assert [web.state(), copy.state(), back.state()] == ["Running", "Running", "Paused"]
    snapshot.delete()
    assert machines.snapshots() == []
    back.resume()
    assert back.state() == "Running"


def test_a_disk_of_its_own_that_became_read_only_is_copied_too(folder: Path, web: Machine) -> None:
    made = web.definition
    for own in made.configuration.drives or []:
        own.is_read_only = True
    web.edit(made)
    web.start()
    snapshot = web.snapshot()
    for copy in (web.clone("copy"), snapshot.restore("back")):
        assert own_disk(folder, copy).read_bytes() == (folder / "disk").read_bytes()
        assert not own_disk(folder, copy).samefile(own_disk(folder, web))


def test_a_disk_of_its_own_that_is_missing_for_a_while_is_still_that(
    folder: Path, web: Machine
) -> None:
    before, disk = web.definition, own_disk(folder, web)
    disk.rename(folder / "away")
    web.edit(web.definition.replace(order=2))
    (folder / "away").rename(disk)
    assert web.definition == before.replace(order=2)


def test_two_drives_may_read_one_disk_of_the_machines_own(
    folder: Path, machines: Machines, web: Machine
) -> None:
    disk = own_disk(folder, web)
    path = f"disks/{disk.name}"
    both = [drive(name, path, is_read_only=True) for name in ("a", "b")]
    web.edit(with_devices(web.definition, drives=both))
    web.start()
    for copy in (web.clone("copy"), web.snapshot().restore("back")):
        assert copy.definition.configuration.drives == both
        own = folder / "machines" / "machines" / copy.id / path
        assert own.read_bytes() == disk.read_bytes()
        assert not own.samefile(disk)


def test_a_name_may_be_used_again_and_an_id_is_not(folder: Path, machines: Machines) -> None:
    first = machines.create("web", definition(folder))
    with pytest.raises(MachineError, match="there is a machine called web"):
        machines.create("web", definition(folder))
    first.delete()
    second = machines.create("web", definition(folder))
    assert second.id != first.id
    with pytest.raises(MachineError, match="no machine has the id"):
        _ = first.name


@pytest.mark.parametrize("name", ["", "../up", "a/b", "-x", "x" * 64, "a\n"])
def test_an_invalid_name_is_refused(folder: Path, machines: Machines, name: str) -> None:
    with pytest.raises(MachineError, match="a name has 1 to 63 letters"):
        machines.create(name, definition(folder))


def test_a_refusal_of_the_monitor_leaves_a_machine_that_can_be_started(
    folder: Path, machines: Machines, web: Machine
) -> None:
    (folder / "kernel").unlink()
    with pytest.raises(VmmApiError):
        web.start()
    assert (web.state(), machines.operations()) == ("Ended", [])
    (folder / "kernel").write_bytes(b"\x7fELF" + bytes(60))
    web.start()
    assert web.state() == "Running"


def test_a_busy_machine_says_with_what_and_nothing_else_begins(
    folder: Path, web: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    web.start()

    found: list[str] = []

    def rivals(_: object) -> None:
        for rival in (web.stop, web.pause, web.delete, lambda: web.clone("other")):
            with pytest.raises(MachineBusy, match="web is busy: clone copy by alice since"):
                rival()
        looking = machines_in(folder)  # another process may look
        found.extend(one.kind for one in looking.operations())
        assert looking.find("copy") is None

    at_calls(monkeypatch, rivals, "/snapshot/create")
    web.clone("copy", by="alice")
    assert found == ["clone", "clone"]
    assert (web.record.operation, web.state()) == (None, "Running")


def test_one_process_controls_the_machines(folder: Path, machines: Machines) -> None:
    machines.create("web", definition(folder))
    other = machines_in(folder)
    assert [one.name for one in other.all()] == ["web"]
    with pytest.raises(MachineError, match="another process, or another `Machines`"):
        other.take_control()
    with pytest.raises(MachineError, match="does not control the machines"):
        other.reconcile()


def test_a_state_that_this_process_cannot_know_is_not_told(folder: Path) -> None:
    with machines_in(folder) as machines:
        web, idle = (machines.create(name, definition(folder)) for name in ("web", "idle"))
        web.start()
        reader = machines_in(folder)
        assert [one.state() for one in reader.all() if one.name == "idle"] == ["Ended"]
        with pytest.raises(MachineError, match="or `reconcile` must find its monitor"):
            reader.get(web.id).state()
    with pytest.raises(MachineError, match="or `reconcile` must find its monitor"):
        web.state()
    with pytest.raises(MachineError, match="web does not run, or `reconcile` must find its"):
        web.guest()
    assert idle.state() == "Ended"
    with machines_in(folder) as machines:
        again = machines.get(web.id)
        with pytest.raises(MachineError, match="there is a machine called web"):
            machines.create("web", definition(folder))
        with pytest.raises(MachineError, match="does not run, or `reconcile` must find its"):
            again.client.pause()
        machines.reconcile()
        assert again.state() == "Running"
        again.stop()


def test_what_cannot_be_recorded_is_not_done(
    machines: Machines, web: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    web.start()
    calls: list[object] = []

    at_calls(monkeypatch, calls.append, "/vm")
    full = OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr(os, "fsync", Mock(side_effect=full))
    for act in (web.pause, web.stop, web.delete, web.snapshot):
        with pytest.raises(OSError, match="No space"):
            act()
    monkeypatch.undo()
    assert (calls, web.state(), machines.operations()) == ([], "Running", [])
    assert machines.snapshots() == []


@pytest.mark.parametrize(
    "text", ["../machines/{id}", "{id}/", "{id}/../{id}", "", "a\0", "x" * 300]
)
def test_a_machine_has_one_id_and_no_path_leads_to_it(
    folder: Path, machines: Machines, text: str
) -> None:
    web = machines.create("web", definition(folder))
    with pytest.raises(MachineError, match="no machine has the id"):
        machines.get(text.format(id=web.id))


def test_a_disk_of_its_own_grows_and_a_guest_that_runs_is_told(
    folder: Path, machines: Machines, web: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = own_disk(folder, web).stat().st_size
    web.grow("rootfs", 2 * before)
    web.start()
    told: list[object] = []
    at_calls(monkeypatch, lambda call: told.append((call.method, call.path)))
    web.grow("rootfs", 3 * before)
    assert ("PATCH", "/drives/rootfs") in told
    for disk, size in (
        ("rootfs", 2 * before),
        ("rootfs", 3 * before + 1),
        ("other", 9 * before),
    ):
        with pytest.raises(ValueError, match=r"cannot grow|no disk of this"):
            web.grow(disk, size)
    assert own_disk(folder, web).stat().st_size == 3 * before
    assert own_disk(folder, web).read_bytes()[:before] == (folder / "disk").read_bytes()


def test_machines_use_only_allowed_files(folder: Path) -> None:
    made = definition(folder)
    (folder / "link").symlink_to("/etc/passwd")
    drives = [Drive(drive_id="d", is_root_device=True, path_on_host=str(folder / "link"))]
    outside = made.configuration.model_copy(update={"drives": drives})
    with machines_in(folder, files=[folder], detached=False) as machines:
        with pytest.raises(ValueError, match="link is in none of the folders"):
            machines.create("web", Definition(configuration=outside))
        assert list((folder / "machines" / "machines").iterdir()) == []
        web = machines.create("web", made)
        web.start()


def test_devices_that_were_changed_are_stored_for_the_next_start(
    folder: Path, machines: Machines
) -> None:
    web = machines.create("web", with_devices(definition(folder), drives=[image(folder, "disk")]))
    shutil.copy(folder / "disk", folder / "other")
    web.start()
    changed = with_devices(web.definition, drives=[image(folder, "other")])
    web.client.drive("a").update(path_on_host=str(folder / "other"))
    with pytest.raises(MachineError, match="web runs on as it is"):
        web.edit(changed)
    web.edit(changed, for_next_start=True)
    web.stop(grace=0)
    web.start()
    (shown,) = web.client.vm_config.get().drives or []
    assert (web.definition, shown.path_on_host) == (changed, str(folder / "other"))
    with pytest.raises(MachineError, match="cannot move into or out of a jail"):
        web.edit(changed.replace(jail=Jail()), for_next_start=True)


def test_a_machine_keeps_the_user_of_its_jail(folder: Path, machines: Machines) -> None:
    web = machines.create("web", definition(folder).replace(jail=Jail(uid=1234)))
    web.edit(web.definition.replace(jail=Jail(new_pid_ns=True)))
    assert web.record.uid == 1234
    with pytest.raises(MachineError, match="or to another user"):
        web.edit(web.definition.replace(jail=Jail(uid=1235)))


async def test_a_clone_whose_every_await_is_cancelled_leaves_its_origin_running(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a scope of anyio does, in Starlette for one, until the task has left it."""
    async with async_machines_in(folder) as machines:
        web = await machines.create("web", definition(folder))
        await web.start()
        exchange, paused = AsyncUnixChannel.exchange, asyncio.Event()

        async def exchanged(channel: AsyncUnixChannel, operation: Any, seconds: Any) -> Any:
            response = await exchange(channel, operation, seconds)
            if operation.method == "PATCH":
                paused.set()
            return response

        monkeypatch.setattr(AsyncUnixChannel, "exchange", exchanged)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(web.clone, "copy")
            await paused.wait()
            tasks.cancel_scope.cancel()
        assert await web.state() == "Running"
        assert machines.operations() == []
        assert [one.name for one in machines.all()] == ["web"]


def test_a_folder_of_another_format_is_refused(folder: Path, machines: Machines) -> None:
    path = folder / "machines" / "format.json"
    assert path.read_text() == '{"format":3}'
    path.write_text('{"format":2}')
    with pytest.raises(MachineError, match="a format that this release cannot use"):
        machines_in(folder)


@pytest.mark.parametrize(
    ("mode", "file", "why"),
    [(0o755, "app.py", "has other files"), (0o777, "", "other users may write to")],
)
def test_a_folder_that_is_not_its_own_is_refused_and_stays(
    folder: Path, mode: int, file: str, why: str
) -> None:
    place = folder / "machines"
    place.mkdir()
    place.chmod(mode)
    if file:
        (place / file).touch()
    with pytest.raises(MachineError, match=why):
        machines_in(folder)
    assert os.listdir(place) == ([file] if file else [])
    assert stat.S_IMODE(place.stat().st_mode) == mode


def test_an_empty_folder_keeps_its_mode(folder: Path) -> None:
    place = folder / "machines"
    place.mkdir(mode=0o755)
    machines_in(folder)
    assert stat.S_IMODE(place.stat().st_mode) == 0o755
    assert {stat.S_IMODE(path.stat().st_mode) for path in place.iterdir()} == {0o700, 0o600}


def test_metadata_that_the_guest_cannot_read_is_told(folder: Path, machines: Machines) -> None:
    web = machines.create("web", definition(folder).replace(metadata={"a": 1}))
    with pytest.warns(RuntimeWarning, match="no interface serves the metadata"):
        web.start()


def test_a_copy_that_no_agent_makes_distinct_is_logged(
    machines: Machines, web: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    web.start()
    web.clone("copy")
    [said] = caplog.messages
    assert said.startswith("copy has the machine id, SSH keys and random numbers of web:")


def test_an_image_that_machines_share_is_copied_before_one_writes_to_it(
    folder: Path, machines: Machines
) -> None:
    disk = folder / "disk"
    shared = with_devices(definition(folder), drives=[image(folder, "disk")])
    written = with_devices(shared, drives=[drive("a", disk)])
    web = machines.create("web", shared)
    assert own_disk(folder, web) == disk
    web.edit(written)
    assert not own_disk(folder, web).samefile(disk)


def test_what_a_monitor_shows_is_not_stored(folder: Path, machines: Machines) -> None:
    shared = with_devices(definition(folder), drives=[image(folder, "disk")])
    web = machines.create("web", shared)
    web.start()
    shutil.copy(folder / "disk", folder / "other")
    assert web.monitor
    web.monitor.client.drive("a").update(path_on_host=f"{folder}/other")  # as of one that lies
    web.edit(web.definition.replace(order=1))
    for copy in (web.snapshot, lambda: web.clone("copy")):
        with pytest.raises(MachineError, match="web runs with other disks than its definition"):
            copy()
    assert (web.definition, web.state()) == (shared.replace(order=1), "Running")
    assert ([one.name for one in machines.all()], machines.snapshots()) == (["web"], [])


def test_a_machine_whose_next_start_has_other_disks_is_not_copied_until_then(
    folder: Path, web: Machine
) -> None:
    web.start()
    now = web.definition
    (root,) = now.configuration.drives or []
    read_only = root.model_copy(update={"is_read_only": True})
    later: list[list[Drive]] = [[root, image(folder, "disk")], [read_only]]
    for drives in later:
        web.edit(with_devices(now, drives=drives), for_next_start=True)
        with pytest.raises(MachineError, match="start it again"):
            web.snapshot()
    web.edit(now, for_next_start=True)
    web.snapshot()
    assert own_disk(folder, web).exists()


def test_a_disk_that_the_next_start_does_not_have_is_removed_then(
    folder: Path, web: Machine
) -> None:
    web.start()
    disk = own_disk(folder, web)
    web.edit(with_devices(web.definition, drives=[]), for_next_start=True)
    assert disk.exists()
    web.stop(grace=0)
    web.start()
    assert not disk.exists()


def test_a_clone_that_cannot_have_its_own_devices_is_refused(
    folder: Path, machines: Machines
) -> None:
    made = definition(folder).configuration
    net = NetworkInterface(iface_id="eth0", host_dev_name="tap0")
    changed = Definition(configuration=made.model_copy(update={"network_interfaces": [net]}))
    web = machines.create("web", changed)
    web.start()
    with pytest.raises(MachineError, match="name a tap device for eth0"):
        web.clone("copy")
    assert len(machines.all()) == 1


async def test_a_block_whose_every_await_is_cancelled_gives_up_all_machines(folder: Path) -> None:
    with anyio.CancelScope() as scope:
        async with async_machines_in(folder, grace=0) as machines:
            for name in ("db", "web"):
                await (await machines.create(name, definition(folder))).start()
            scope.cancel()
    assert [one.is_up for one in machines.all()] == [False, False]
    async with async_machines_in(folder) as second:
        second.take_control()


async def test_a_snapshot_whose_deletion_is_cancelled_leaves_no_file(folder: Path) -> None:
    async with async_machines_in(folder) as machines:
        web = await machines.create("web", definition(folder))
        await web.start()
        snapshot = await web.snapshot()
        with anyio.CancelScope() as scope:
            scope.cancel()
            await snapshot.delete()
        assert (machines.snapshots(), os.listdir(folder / "machines" / "snapshots")) == ([], [])


def test_a_paused_machine_is_not_started(web: Machine) -> None:
    with pytest.raises(MachineError, match="web is ended; it must be running or paused"):
        web.pause()
    web.start()
    web.start()
    web.pause()
    with pytest.raises(MachineError, match="web is paused; it must be running or ended"):
        web.start()
    assert web.state() == "Paused"
    web.resume()
    web.start()
    assert web.state() == "Running"
