"""What somebody tries first, and what an import costs."""

import asyncio
import os
import pickle
import queue
import socket
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

import generated_vmm
from generated_vmm import (
    AsyncMonitor,
    AsyncVmmClient,
    BootSource,
    Drive,
    FullVmConfiguration,
    Monitor,
    VmmApiError,
    VmmClient,
    VmmConnectionError,
    VmmTimeoutError,
)
from generated_vmm.guest import AsyncGuest, Guest, GuestMachineError
from generated_vmm.machines import AsyncMachines, Definition, Machines
from generated_vmm.process import (
    JailedMonitor,
    MonitorError,
    MonitorExited,
    MonitorStartError,
    mistakes,
)
from generated_vmm.process._async import client
from generated_vmm.process._sync import client as sync_client
from generated_vmm.testing import SimulatedMonitor
from generated_vmm.transport.calls import deadline_after
from tests.vmm.codegen.descriptions import ROOT
from tests.vmm.forking import forked

KIND = [sys.executable, "-m", "generated_vmm.testing"]
WITH_CONSOLE = {"kernel_image_path": sys.executable, "boot_args": "console=ttyS0"}
PAIRS: list[tuple[Any, Any, Any]] = [
    (VmmClient, AsyncVmmClient, "/vm.socket"),
    (Monitor, AsyncMonitor, "firecracker"),
    (Guest, AsyncGuest, "/vsock"),
    (Machines, AsyncMachines, "machines"),
]


@pytest.mark.parametrize(("kind", "asynchronous", "argument"), PAIRS)
def test_a_block_of_the_other_kind(
    kind: Any, asynchronous: Any, argument: str, monkeypatch: Any, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    name = kind.__name__
    with (
        pytest.raises(TypeError, match=f"Async{name} needs `async with`, .*; or use {name}$"),
        asynchronous(argument),
    ):
        raise AssertionError("the block began")

    async def block() -> None:
        async with kind(argument):
            raise AssertionError("the block began")

    with pytest.raises(TypeError, match=f"{name} needs `with`, .*; or use Async{name}$"):
        asyncio.run(block())


def unchecked(function: Any) -> Any:
    """`function` for a call that a type checker would refuse."""
    return function


def test_a_command_line_as_the_program() -> None:
    with pytest.raises(MonitorStartError, match=r"a list: \['no-monitor', '--boot-timer'\]$"):
        Monitor("no-monitor --boot-timer").start()


def test_the_socket_of_a_monitor_as_the_program() -> None:
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{folder}/vm.socket")
        with pytest.raises(MonitorStartError, match=r"VmmClient\(path\) controls that"):
            Monitor(f"{folder}/vm.socket").start()


def test_the_jailer_and_the_monitor_are_swapped() -> None:
    with pytest.raises(ValueError, match="/bin/jailer: jailer and binary are swapped"):
        JailedMonitor("/bin/firecracker", "/bin/jailer", id="a", uid=1, gid=1)
    JailedMonitor("/bin/firecracker-jailer", "/bin/own", id="a", uid=1, gid=1)


def test_a_relative_path_after_a_change_of_the_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(VmmConnectionError, match=f"No such file .*: '{tmp_path}/vm.socket'"):
        VmmClient("vm.socket").get_version()


NO_FILE = "or its folder does not exist where the monitor runs"
NO_TAP = (
    "a tap of this name must exist, be free, and belong to the monitor's user: Tap(...) makes one, "
    "and `ip link` shows those that there are"
)
REFUSED: list[tuple[Callable[[VmmClient], object], str]] = [
    (lambda vm: vm.boot("/vm/vmlinux"), f'"/vm/vmlinux" {NO_FILE}'),
    (lambda vm: vm.boot('/"vm"'), rf'"/\"vm\"" {NO_FILE}'),
    (lambda vm: vm.network_interface("a").set(host_dev_name="tpa0"), NO_TAP),
    (
        lambda vm: (vm.boot(sys.executable), unchecked(vm.mmds.set)({})),
        "call mmds.config.set(...) before the start, then mmds.set(...)",
    ),
    (
        lambda vm: vm.vsock.set(guest_cid=3, uds_path=vm._sender.settings.socket_path),
        "a socket at {} is in use, or left by a monitor that has ended: remove it then",
    ),
    (
        lambda vm: (vm.boot(sys.executable), vm.pmem("data").set(path_on_host="/data")),
        "set devices before the start, or start the monitor with enable_pci",
    ),
    (
        lambda vm: (
            vm.boot(sys.executable),
            vm.snapshot.create(snapshot_path="a", mem_file_path="b"),
        ),
        "call pause() before, and resume() afterwards",
    ),
    (
        lambda vm: (vm.boot(sys.executable), vm.boot(sys.executable)),
        "this comes before the start, and a microVM starts once: start a new monitor for another",
    ),
    (
        lambda vm: [vm.metrics.set(metrics_path=os.devnull) for _ in range(2)],
        "they are set, as by Monitor(metrics_path=...)",
    ),
    (
        lambda vm: (
            vm.balloon.set(amount_mib=1, deflate_on_oom=True),
            vm.boot(sys.executable),
            vm.balloon.stats.get(),
        ),
        "pass stats_polling_interval_s to balloon.set before the start",
    ),
    (lambda vm: unchecked(vm.machine_config.update)(), "None is not sent: pass what changes"),
    (
        lambda vm: vm.balloon.set(amount_mib=1 << 20, deflate_on_oom=True),
        "amount_mib is in MiB, and less than mem_size_mib",
    ),
    (
        lambda vm: vm.mmds.config.set(network_interfaces=["tap0"], version="V2"),
        "pass ids of network_interface(id), set before",
    ),
    (lambda vm: vm.pause(), "call action('InstanceStart') or boot(...) before"),
    (
        lambda vm: vm.action("InstanceStart"),
        "call boot_source.set(kernel_image_path=...) before",
    ),
]


@pytest.mark.parametrize(("call", "note"), REFUSED)
def test_a_call_that_the_monitor_refuses(call: Callable[[VmmClient], object], note: str) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        SimulatedMonitor(path := f"{folder}/s", host_devices=["tap0"]),
        VmmClient(path) as vm,
        pytest.raises(VmmApiError) as refused,
    ):
        call(vm)
    notes = [note.replace("{}", f'"{path}"')]
    if NO_FILE in note:
        notes.append("a simulated monitor needs no files with check_files=False, or --any-path")
    assert refused.value.__notes__ == notes


def test_files_and_sizes_that_are_mixed_up(tmp_path: Path) -> None:
    notes = {
        "Unable to read kernel image": "the kernel must be whole, and fit into mem_size_mib",
        "Snapshot size exceeds limit of 9 bytes": "is the memory in snapshot_path, and the state",
        "not allowed after configuring boot-specific resources": "load it into a new monitor",
        "Address already in use": "a socket at a path of the call or in the snapshot is in use",
    }
    with SimulatedMonitor(path := tmp_path / "s") as monitor, VmmClient(path) as vm:
        for said, note in notes.items():
            monitor.faults.refuse_next(said)
            with pytest.raises(VmmApiError) as refused:
                unchecked(vm.snapshot.load)(snapshot_path="/s", mem_file_path="/m")
            assert refused.value.__notes__[0].startswith(note)


def test_a_machine_whose_guest_has_halted(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with SimulatedMonitor(path, check_files=False) as monitor, VmmClient(path) as vm:
        vm.vsock.set(guest_cid=3, uds_path=f"{tmp_path}/v")
        vm.boot("/vmlinux")
        monitor.exit(0)
        with pytest.raises(VmmConnectionError, match="its monitor has ended, as when the guest"):
            vm.get_instance_info()
        with pytest.raises(GuestMachineError, match="its monitor has ended, as when the guest"):
            Guest(tmp_path / "v", timeout=0.1).info()


VALUES: list[tuple[Callable[[Any], object], str]] = [
    (lambda vm: vm.machine_config.set(vcpu_count=1, mem_size_mib=512 * 1024), "=524288 is more th"),
    (lambda vm: vm.machine_config.set(vcpu_count=1, mem_size_mib=2), "=2 is in MiB, and Linux nee"),
    (
        lambda vm: limit(vm, {"bandwidth": {"size": 10, "refill_time": 1}}),
        "size=10 of a bandwidth is in bytes",
    ),
    (
        lambda vm: limit(vm, {"bandwidth": {"size": 1 << 20, "refill_time": 1}}),
        "refill_time=1 in milliseconds",
    ),
    (lambda vm: vm.network_interface("eth0").update(tx_rate_limiter=None), "it changes nothing: N"),
    (lambda vm: vm.drive("a").update(rate_limiter={}), "it changes nothing: None is not sent"),
    (lambda vm: interface(vm, guest_mac="A3:00:00:00:00:01"), "guest_mac=A3:.* is a group's"),
]


def interface(vm: VmmClient, **fields: Any) -> None:
    vm.network_interface("eth0").set(host_dev_name="tap0", **fields)


def limit(vm: VmmClient, limiter: object) -> None:
    interface(vm, rx_rate_limiter=limiter, tx_rate_limiter={}, guest_mac="a2:00:00:00:00:01")


@pytest.mark.parametrize("is_plain", [True, False])
@pytest.mark.parametrize(("call", "told"), VALUES)
def test_values_that_a_monitor_accepts(
    simulated: Monitor, call: Callable[[VmmClient], object], told: str, is_plain: bool
) -> None:
    vm = VmmClient(simulated.socket_path) if is_plain else simulated.client
    for size in (10 * 2**20, 0):
        limit(vm, {"bandwidth": {"size": size, "refill_time": 100 if size else 1}})
    with pytest.warns(RuntimeWarning, match=told) as caught, suppress(VmmApiError):
        call(vm)
    assert [warning.filename for warning in caught] == [__file__]


def test_two_guests_that_write_to_one_disk(simulated: Monitor, tmp_path: Path) -> None:
    """Whatever its name. A guest that only reads, and one that has ended, are no mistake."""
    (tmp_path / "disk").touch()
    (tmp_path / "link").hardlink_to(tmp_path / "disk")

    def give(monitor: Monitor, name: str, *, is_read_only: bool = False) -> None:
        own: Any = {"is_root_device": False, "is_read_only": is_read_only}
        monitor.client.drive("a").set(path_on_host=tmp_path / name, **own)

    with Monitor(KIND) as ended:
        give(ended, "disk")
    give(simulated, "disk", is_read_only=True)
    with Monitor(KIND) as second, Monitor(KIND) as third:
        give(second, "disk")
        give(third, "disk", is_read_only=True)
        for _ in range(2):
            with warnings.catch_warnings(action="error"), pytest.raises(RuntimeWarning):
                give(third, "link")
        with pytest.warns(RuntimeWarning, match=f"process {second.pid} has .*disk too, and two"):
            give(simulated, "disk")
        give(second, "link", is_read_only=True)


def test_a_disk_that_another_program_writes_to(simulated: Monitor, tmp_path: Path) -> None:
    """This program and the monitor itself may have the file open."""
    path = tmp_path / "disk"
    path.touch()
    own: Any = {"path_on_host": path, "is_root_device": False}
    with path.open("r+b") as disk, path.open("rb") as source:
        reading = subprocess.Popen(["sleep", "60"], stdin=source)
        for _ in range(2):
            simulated.client.drive("a").set(own)
        with subprocess.Popen(["sleep", "60"], stdin=disk) as other:
            told = f"process {other.pid} has {path} too, and two guests that write"
            with pytest.warns(RuntimeWarning, match=told) as caught:
                simulated.client.drive("a").set(own)
            other.kill()
    reading.kill()
    assert (reading.wait(), [warning.filename for warning in caught]) == (-9, [__file__])


def test_one_disk_under_two_names(simulated: Monitor) -> None:
    """Of several clients, whose calls are those of one. Disks that are only read may be one."""
    data: Any = {"path_on_host": "/dev/null", "is_root_device": False}
    for name in ("a", "b"):
        VmmClient(simulated.socket_path).drive(name).set({**data, "is_read_only": True})
    VmmClient(simulated.socket_path).drive("b").set({**data, "path_on_host": "/dev/zero"})
    VmmClient(simulated.socket_path).drive("a").set(data)
    with pytest.warns(RuntimeWarning, match="/drives/a is the same file: the guest destroys it"):
        VmmClient(simulated.socket_path).pmem("c").set(path_on_host="/dev/null", read_only=True)


def noting(note: Callable[[object], object]) -> Callable[[float | None], float]:
    """What notes the seconds of a call when they begin."""
    return lambda seconds: (note(seconds), deadline_after(seconds))[1]


def test_a_snapshot_with_a_disk_that_another_guest_writes_to(
    simulated: Monitor, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "disk").write_bytes(bytes(512))
    with socket.create_server(str(folder / "vhost"), family=socket.AF_UNIX):
        simulated.client.drive("a").set(is_root_device=False, socket=str(folder / "vhost"))
    simulated.client.boot(sys.executable, folder / "disk")
    simulated.client.pause()
    files: Any = {"snapshot_path": folder / "state", "mem_file_path": folder / "memory"}
    simulated.client.snapshot.create(files)
    backend = {"backend_type": "File", "backend_path": folder / "memory"}
    load: Any = {"snapshot_path": folder / "state", "mem_backend": backend}
    with Monitor(KIND) as second, pytest.warns(RuntimeWarning, match="has .*disk too") as caught:
        second.client.snapshot.load(load)
    assert [warning.filename for warning in caught] == [__file__]
    simulated.stop()
    limits = list[object]()
    with Monitor(KIND) as last:
        monkeypatch.setattr(sync_client, "deadline_after", noting(limits.append))
        last.client.with_options(timeout=None).snapshot.load(load)
        assert limits == [None, sync_client.LONGEST_LOOK]
    assert mistakes.disks_of(b"[]") == []


async def test_a_disk_that_does_not_respond_holds_nobody_up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Nor does it take the time of a call."""
    returned, steps = threading.Event(), queue.Queue[object]()
    note: Callable[[object], object] = steps.put
    monkeypatch.setattr(mistakes, "regular", lambda _: (note("look"), returned.wait(20)))
    disk: Any = {"path_on_host": tmp_path / "disk", "is_root_device": False}
    (tmp_path / "disk").touch()
    async with AsyncMonitor(KIND) as monitor:
        monkeypatch.setattr(client, "deadline_after", noting(note))
        monkeypatch.setattr(client, "LONGEST_LOOK", 20.0)
        task = asyncio.create_task(monitor.client.drive("a").set(disk))
        assert await asyncio.to_thread(steps.get) == "look"
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        monkeypatch.setattr(client, "LONGEST_LOOK", 0.01)
        await monitor.client.with_options(timeout=9).drive("b").set(disk)
        shown = await monitor.client.vm_config.get()
        assert [drive.drive_id for drive in shown.drives or []] == ["b"]
        assert [steps.get(), steps.get(), steps.get()] == ["look", 9, 5.0]
        returned.set()


@pytest.mark.parametrize("is_plain", [True, False])
def test_metadata_that_no_guest_sees(simulated: Monitor, is_plain: bool) -> None:
    def client(monitor: Monitor) -> VmmClient:
        return VmmClient(monitor.socket_path) if is_plain else monitor.client

    (vm := client(simulated)).mmds.set({})
    with pytest.warns(
        RuntimeWarning, match=r"call mmds.config.set\(...\) before the start$"
    ) as caught:
        vm.with_options(timeout=9).boot(sys.executable)
    assert [warning.filename for warning in caught] == [__file__]
    with Monitor(KIND) as sound:
        (vm := client(sound)).mmds.set({})
        vm.network_interface("eth0").set(host_dev_name="tap0")
        client(sound).mmds.config.set(network_interfaces=["eth0"], version="V2")
        vm.boot(sys.executable)


QEMU = "qemu-img convert -O raw"
FORMATS = {
    "qcow2": (b"QFI\xfb", QEMU),
    "VMDK": (b"KDMV", QEMU),
    "VHDX": (b"vhdxfile", QEMU),
    "gzip": (b"\x1f\x8b\x08", "gzip -d"),
    "zstd": (b"\x28\xb5\x2f\xfd", "zstd -d"),
    "xz": (b"\xfd7zXZ\0", "xz -d"),
}


@pytest.mark.parametrize("name", FORMATS)
def test_a_disk_of_another_format(simulated: Monitor, folder: Path, name: str) -> None:
    """A guest may unpack a disk that is not its root by itself."""
    disk, (first, remedy) = folder / "disk", FORMATS[name]
    said = f"disk has the format {name}, but guests get raw disks: {remedy}"
    disk.write_bytes(first + bytes(512))
    root: Any = {"path_on_host": disk, "is_root_device": True, "is_read_only": True}
    if said.endswith(" -d"):
        simulated.client.drive("data").set({**root, "is_root_device": False})
    with pytest.warns(RuntimeWarning, match=said):
        simulated.client.drive("rootfs").set(root)
    configuration = FullVmConfiguration(
        boot_source=BootSource(kernel_image_path=sys.executable),
        drives=[Drive(drive_id="rootfs", **root)],
    )
    with Machines(folder / "machines", binary=KIND) as machines:
        web = machines.create("web", Definition(configuration=configuration))
        with pytest.warns(RuntimeWarning, match=said) as caught:
            web.start()
        web.delete()
    assert [warning.filename for warning in caught] == [__file__]


ROOTED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {"is_root_device": True}),
    ({}, {"is_root_device": True, "partuuid": "0eaa91a0-01"}),
    ({"initrd_path": sys.executable}, {"is_root_device": False}),
    ({"boot_args": "console=ttyS0 root=/dev/vda1"}, {"is_root_device": False}),
]


@pytest.mark.parametrize(("source", "drive"), ROOTED)
def test_disks_of_which_none_is_the_root(
    simulated: Monitor, source: dict[str, Any], drive: dict[str, Any]
) -> None:
    with Monitor(KIND) as sound:
        VmmClient(sound.socket_path).drive("z").set(path_on_host="/dev/null", is_root_device=False)
        sound.client.drive("a").set(path_on_host=sys.executable, is_read_only=True, **drive)
        sound.client.boot({"kernel_image_path": sys.executable, **source})
    data: Any = {"path_on_host": sys.executable, "is_root_device": False, "is_read_only": True}
    (vm := VmmClient(simulated.socket_path)).drive("a").set(data)
    with pytest.warns(RuntimeWarning, match="no disk is the root device, and boot_args has no ro"):
        vm.boot(sys.executable)


def test_a_root_disk_without_content(simulated: Monitor, tmp_path: Path) -> None:
    (tmp_path / "disk").touch()
    with pytest.warns(RuntimeWarning, match="disk is empty: mkfs.ext4 makes a file system"):
        simulated.client.drive("a").set(path_on_host=tmp_path / "disk", is_root_device=True)


def test_a_relative_path_of_a_monitor_in_another_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    (folder / "disk").touch()
    (folder / "run").mkdir()
    with Monitor(KIND, cwd="run") as monitor, pytest.raises(VmmApiError) as refused:
        monitor.client.boot(sys.executable, "disk")
    assert f"relative paths begin at {folder}/run" in refused.value.__notes__[0]


def test_a_disk_is_still_written_to_after_an_update(simulated: Monitor, folder: Path) -> None:
    (folder / "disk").touch()
    own: Any = {"path_on_host": folder / "disk", "is_root_device": False}
    with Monitor(KIND) as second:
        second.client.drive("a").set(own)
        second.client.drive("a").set({**own, "cache_type": "Writeback"})
        second.client.boot({"kernel_image_path": sys.executable, "boot_args": "root=/dev/vda"})
        second.client.drive("a").update(rate_limiter={"ops": {"size": 1, "refill_time": 1}})
        with pytest.warns(RuntimeWarning, match="two guests that write to one disk destroy it"):
            simulated.client.drive("a").set(own)


def test_a_path_that_no_file_can_have_is_refused_by_the_monitor(simulated: Monitor) -> None:
    with pytest.raises(VmmApiError):
        simulated.client.drive("a").set(path_on_host="a\0b", is_root_device=False)


def test_a_guest_that_writes_nothing() -> None:
    told = "is the machine started and not paused, is console=ttyS0 in boot_args and no serial_out_"
    with (
        Monitor(KIND) as silent,
        pytest.raises(VmmTimeoutError, match=f"{told}.*, and did the last write end with a line"),
    ):
        silent.serial.read_until(b"guest is up", timeout=0.01)


def test_the_answer_that_the_console_had_before_the_question(simulated: Monitor) -> None:
    simulated.client.boot(WITH_CONSOLE)
    seen = simulated.serial.read_until(b"guest is up\nconsole=ttyS0\n")
    simulated.serial.write(b"a")
    with pytest.warns(RuntimeWarning, match="is older than the last write: pass since=") as caught:
        simulated.serial.read_until(b"is up")
    assert [warning.filename for warning in caught] == [__file__]
    simulated.serial.read_until(b"is up", since=0)
    simulated.serial.read_until(b"guest hears a", since=seen.end)
    simulated.serial.read_until(b"guest hears a")


def test_the_outputs_of_the_parents_monitor(simulated: Monitor) -> None:
    told, serial = f"the monitor belongs to process {os.getpid()}, which this", simulated.serial

    def use() -> None:
        with pytest.raises(MonitorError, match=told):
            serial.read_until(b"login:")
        with pytest.raises(MonitorError, match=told):
            serial.write(b"a")
        for outlet in (simulated.log, simulated.metrics):
            with pytest.raises(MonitorError, match=told):
                outlet.wait(0)
        for ask in (simulated.client.get_version, simulated.usage):
            with pytest.raises(MonitorError, match=f"{told}.*VmmClient of its socket_path"):
                ask()
        assert "of another process" in repr(simulated)
        VmmClient(simulated.socket_path).get_version()

    forked(lambda: forked(use).result()).result()


def test_a_monitor_for_another_process(simulated: Monitor) -> None:
    with pytest.raises(TypeError, match="give another one its socket_path, for a VmmClient"):
        pickle.dumps(simulated)


def test_a_guest_that_ends_its_monitor(folder: Path) -> None:
    with Monitor(KIND) as monitor:
        monitor.client.boot(sys.executable)
        monitor.client.action("SendCtrlAltDel")
        monitor.wait(20)
        with pytest.raises(MonitorExited, match="as when the guest halts or reboots: start a new"):
            monitor.client.action("InstanceStart")


def test_the_socket_in_an_error_of_a_vsock_connection(simulated: Monitor, folder: Path) -> None:
    path = folder / "vsock"
    simulated.client.vsock.set(guest_cid=3, uds_path=path)
    simulated.client.boot(sys.executable)
    with pytest.raises(VmmTimeoutError, match=f"vsock port 9 on {path}: no connection within"):
        simulated.client.connect_vsock(9, timeout=0.01)


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> Iterator[Monitor]:
    monkeypatch.setattr(sync_client, "LONGEST_LOOK", 20.0)  # on a host that is busy, too
    with Monitor(KIND) as monitor:
        yield monitor


def test_a_field_of_another_name_is_told_the_names() -> None:
    with pytest.raises(ValidationError) as caught:
        unchecked(VmmClient("/no.socket").boot)("/vmlinux", rootfs="/rootfs.ext4")
    assert "MachineConfiguration has cpu_template, smt, mem_size_mib" in caught.value.__notes__[0]


# Importing the package gives every name, and costs what the program uses of it


LOADED = """
import sys
import generated_vmm
{use}
parts = "generated_vmm._generated.models.", "generated_vmm.facade._async.", "generated_vmm.process"
print(*sorted(name for name in sys.modules if name.startswith(parts)))
"""


def loaded_by(use: str) -> list[str]:
    """The modules with models and of the async client that a program has after this line."""
    command = [sys.executable, "-W", "error", "-c", LOADED.format(use=use)]
    found = subprocess.check_output(command, cwd=ROOT, text=True).split()
    return [name.removeprefix("generated_vmm.") for name in found]


@pytest.mark.parametrize(
    ("use", "modules"),
    [
        ("", []),
        ("generated_vmm.VmmClient('/s').drive('a')", []),
        ("generated_vmm.TokenBucket(size=1, refill_time=1)", ["_generated.models.token_bucket"]),
        ("generated_vmm.AsyncVmmClient('/s')", ["facade._async.client"]),
        ("generated_vmm.Monitor, generated_vmm.AsyncMonitor", ["process"]),
    ],
)
def test_what_is_used_is_imported_then(use: str, modules: list[str]) -> None:
    loaded = loaded_by(use)
    assert set(modules) <= set(loaded)
    assert {one for one in loaded if "_generated" in one} <= set(modules)


def test_what_takes_long_to_import_is_imported_when_it_is_used() -> None:
    loaded_by("vm = generated_vmm.VmmClient('/s'); assert 'asyncio' not in sys.modules")
    loaded_by("generated_vmm.AsyncVmmClient('/s'); assert 'asyncio' in sys.modules")


def test_every_name_is_there() -> None:
    for name in generated_vmm.__all__:
        assert getattr(generated_vmm, name) is not None
    assert set(generated_vmm.__all__) <= set(dir(generated_vmm))
    everything: dict[str, object] = {}
    exec("from generated_vmm import *", everything)
    assert set(generated_vmm.__all__) <= everything.keys()


@pytest.mark.parametrize("module", ["generated_vmm", "generated_vmm._generated.models"])
def test_a_name_that_is_not_there_is_an_attribute_error(module: str) -> None:
    __import__(module)
    with pytest.raises(AttributeError, match=f"module '{module}' has no attribute 'Nope'"):
        sys.modules[module].Nope  # noqa: B018  # asking is the test
