"""Names, options and values that other libraries have, and what is silent beside them."""

import io
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from generated_vmm import AsyncMonitor, AsyncVmmClient, InstanceInfo, Monitor, VmmClient
from generated_vmm.guest import (
    AsyncGuest,
    AsyncGuestPath,
    AsyncProgram,
    CompletedProgram,
    Guest,
    GuestPath,
    Output,
    Program,
)
from generated_vmm.machines import AsyncMachine, AsyncMachines, Definition, Machine, Machines
from generated_vmm.misuse import Raw
from generated_vmm.process import JailedMonitor, MonitorError
from generated_vmm.testing import SimulatedMonitor

TELLERS: dict[str, tuple[Any, Any]] = {
    "vm": (VmmClient, AsyncVmmClient),
    "monitor": (Monitor, AsyncMonitor),
    "guest": (Guest, AsyncGuest),
    "path": (GuestPath, AsyncGuestPath),
    "program": (Program, AsyncProgram),
    "machine": (Machine, AsyncMachine),
    "machines": (Machines, AsyncMachines),
}


@pytest.mark.parametrize("kind", [kind for pair in TELLERS.values() for kind in pair])
def test_a_name_of_another_library_leads_to_a_member(kind: Any) -> None:
    made = kind.__new__(kind)
    for name in " ".join(kind._elsewhere).split():
        assert not hasattr(kind, name)
        said = f"{kind.__name__} has no member '{re.escape(name)}': "
        with pytest.raises(AttributeError, match=said) as caught:
            getattr(made, name)
        for owner, member in re.findall(r"\b(\w+)\.(\w+)\(", str(caught.value)):
            assert owner not in TELLERS or hasattr(TELLERS[owner][0], member)
    with pytest.raises(AttributeError, match=r"has no member 'fly'$"):
        getattr(made, "fly")  # noqa: B009


def test_a_property_of_a_subclass_says_what_it_lacks() -> None:
    class Named(Guest):
        name = property(lambda guest: guest.label.upper())

    with pytest.raises(AttributeError, match="no member 'label'"):
        print(Named("/s").name)


def test_a_part_of_a_microvm_is_not_called_itself() -> None:
    vm: Any = VmmClient("/s")
    with pytest.raises(TypeError, match=r'vm.drive\("..."\).set\(...\), where vm is the client'):
        vm.drive.set(drive_id="rootfs", path_on_host="/rootfs", is_root_device=True)
    with pytest.raises(TypeError, match=r"MachineConfigResource is not callable: .* set, update"):
        vm.machine_config(vcpu_count=2, mem_size_mib=512)


TEXT, HOUR = io.StringIO(), timedelta(hours=1)
CALLS: list[tuple[Callable[[], object], type[Exception], str]] = [
    (lambda: vm().boot("/vmlinux", "/disk", 2, 512), TypeError, "vcpu_count=2, mem_size_mib=512"),
    (lambda: vm().snapshot.create("s", "m"), TypeError, r"by keywords: mem_file_path=\.\.\., "),
    (lambda: vm().machine_config.update(2, 512), TypeError, r"vcpu_count=\.\.\."),
    (lambda: any_of(Machines)(".")["web"], TypeError, r"no items by index: machines\.all\(\), or"),
    (lambda: "web" in any_of(Machines)("."), TypeError, r"items by index: machines\.all\(\), or"),
    (lambda: any_of(Monitor)().metrics[-1], TypeError, "by index: its last, or list"),
    (lambda: any_of(Monitor)().serial.read(-5), ValueError, r"from the start: read\(\)\.data"),
    (lambda: any_of(Monitor)().serial.read().decode(), AttributeError, r"its data\.decode"),
    (lambda: any_of(Output)("stdout", b"").strip(), AttributeError, r"its data\.strip"),
    (lambda: any_of(CompletedProgram)([], 1, b"", b"").status, AttributeError, "its returncode"),
    (lambda: [*any_of(CompletedProgram)([], 1, b"", b"")], TypeError, "its stdout and stderr"),
    (
        lambda: vm().drive("a").get(),
        AttributeError,
        r"no member 'get': vm\.vm_config\.get\(\) has ",
    ),
    (lambda: any_of(Machines)(".").all().__await__(), TypeError, "Records is there at once: omit"),
    (lambda: any_of(guest().path("/")).__await__(), TypeError, "GuestPath is there at once: omit"),
    (lambda: any_of(Monitor)().serial.readline(), AttributeError, r"monitor\.serial\.read_until\("),
    (lambda: [*any_of(Monitor)().serial], TypeError, r"monitor\.serial\.follow\(\), or read"),
    (lambda: b"" in any_of(Monitor)().serial.read(), TypeError, "its data$"),
    (
        lambda: any_of(JailedMonitor)(id="a", uid=1, gid=1, cgroups={"memory.max": "512"}),
        ValueError,
        "cgroups has memory.max 512; it is in bytes, unlike 512M",
    ),
    (lambda: any_of(Monitor)().serial.write("a"), TypeError, "data is text: pass bytes, b'a'"),
    (lambda: any_of(Monitor)().usage(), MonitorError, "the monitor has not been started"),
    (lambda: guest().start(["cat"], stdin=b"a"), ValueError, r"it must be True, and write\(data\)"),
    (lambda: guest().run(["a"], limits={"memory": 1}), ValidationError, "Extra inputs"),
    (
        lambda: any_of(Monitor)(config_file={}),
        ValueError,
        "is a mapping; it must be a valid string",
    ),
    (lambda: any_of(Monitor)(env={"A": 1}), ValueError, "env has 'A'; it must be a valid string"),
    (lambda: Definition(agent=True), ValidationError, "agent\n  Input should be a valid integer"),
    (
        lambda: any_of(Machine.__new__(Machine)).state == "Running",
        TypeError,
        "state is a method: compare what its call returns",
    ),
    (lambda: guest().attach(guest()), ValueError, r"the id of a program, such as program\.id"),
    (lambda: any_of(Machines)("~/m"), ValueError, r"folder is '~/m', .* os\.path\.expanduser does"),
    (lambda: any_of(Monitor)(cwd="~/m"), ValueError, "cwd is '~/m', and nothing replaces the ~"),
    (lambda: vm().boot(Path("~/kernel")), ValueError, "it is '~/kernel', and nothing replaces"),
    (lambda: simulated(host_devices="tap0"), TypeError, r"names: host_devices=\['tap0'\]"),
    (lambda: simulated().guest.listen("52"), ValueError, "port is '52'; it must be a number"),
    (
        lambda: setattr(simulated().guest, "boot_seconds", "0"),
        ValueError,
        "boot_seconds is '0'; it",
    ),
    (lambda: simulated().faults.delay_next("1"), ValueError, "seconds is '1'; it must be a number"),
    (lambda: simulated().faults.refuse_next("a", status="4"), ValueError, "status is '4'; it must"),
    (lambda: any_of(VmmClient)("/s", max_body_bytes="1M"), ValueError, "must be a number of bytes"),
    (lambda: any_of(VmmClient)("/s", max_answer_bytes="1M"), ValueError, "a number of bytes"),
    (lambda: any_of(VmmClient)("/s", max_body_bytes=-1), ValueError, "it cannot be negative"),
    (lambda: any_of(VmmClient)(""), ValueError, "socket_path is empty"),
    (lambda: vm().boot("/k", boot_args="a"), TypeError, "boot_source={..., 'boot_args': ...}"),
    (lambda: any_of(Monitor)(socket="/x"), TypeError, r"\['socket'\]; there are .*log_path, "),
    (lambda: guest().run(["ls"], capture_output=True), TypeError, "Output is always captured"),
    (lambda: guest().start(["ls"], shell=True), TypeError, r"options \['shell'\]; there are cwd,"),
    (lambda: guest().run(["cat"], input="text"), TypeError, "input is text: pass bytes"),
    (lambda: open(guest().path("/file")), TypeError, "is in the guest: use its methods"),  # noqa: SIM115
    (lambda: any_of(Monitor)().stop(grace=HOUR), ValueError, "grace is datetime.*of seconds"),
    (lambda: path().write_from(Path("f")), TypeError, r"for bytes: open\(path, 'rb'\)"),
    (lambda: path().write_tar_from("f.tar"), TypeError, r"for bytes: open\(path, 'rb'\)"),
    (lambda: path().read_into(Path("f")), TypeError, r"for bytes: open\(path, 'wb'\)"),
    (lambda: path().read_tar_into(TEXT), TypeError, r"for bytes: open\(path, 'wb'\)"),
    (lambda: path().read_bytes("1M"), ValueError, "max_bytes is '1M'; .* a number of bytes"),
    (lambda: path().write_bytes(b"", mode=644), ValueError, "644, which is 0o1204; .* as 0o644"),
    (lambda: path().write_bytes(b"", mode="0644"), ValueError, "mode is '0644'; .* as 0o644"),
    (lambda: any_of(Guest)("/s").wait_until_ready(HOUR), ValueError, "a number of seconds"),
    (lambda: any_of(Machines)(".", firecracker="/f"), ValidationError, "firecracker\\s+Unexp"),
    (lambda: any_of(Machines)(".", files=b"/srv"), ValueError, "not allowed as a Sequence"),
    (lambda: any_of(Machines)(".", files=Path("/srv")), ValueError, "instance of Sequence"),
    (lambda: any_of(Machines)(".", grace=HOUR), ValueError, r"grace\s+Input should be a valid n"),
]


WARNED: list[tuple[Callable[[], object], str]] = [
    (lambda: info().state == "running", "'running' never .* 'Not started', 'Paused', 'Running'"),
    (lambda: info().state in ("exited", 1), "'exited' never equals this value"),
    (lambda: simulated().state == "not started", "'not started' never equals this value"),
    (lambda: vm().with_options(timeout=5000), "timeout is in seconds: 5000 are 1.4 hours"),
    (lambda: any_of(Monitor)().serial.read().data == "a", "'a' never equals bytes: compare b'a', "),
    (lambda: simulated().faults.delay_next(500), "seconds is in seconds: 500 are 8.3 minutes"),
    (lambda: setattr(simulated().guest, "boot_seconds", 200), "boot_seconds is in seconds: 200"),
    (lambda: any_of(Monitor)().stop(grace=5000), "grace is in seconds: 5000 are"),
    (
        lambda: any_of(Raw(b"a")) == "a",
        "'a' never equals bytes: .* b'a'",
    ),
    (lambda: any_of(Monitor)(grace=5000), "grace is in seconds: 5000 are"),
]


def info() -> Any:
    return InstanceInfo.from_answer(b'{"app_name":"","id":"","state":"Running","vmm_version":""}')


def any_of(kind: object) -> Any:
    """A class whose calls no type checker sees."""
    return kind


def vm() -> Any:
    return VmmClient("/s")


def guest() -> Any:
    return Guest("/no/vsock")


def simulated(**options: Any) -> Any:
    return SimulatedMonitor("s", **options)


def path() -> Any:
    return guest().path("/file")


@pytest.mark.parametrize(("call", "error", "said"), CALLS)
def test_a_value_of_another_kind(
    call: Callable[[], object], error: type[Exception], said: str, folder: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(error, match=said):
        call()


@pytest.mark.parametrize(("call", "said"), WARNED)
def test_a_value_that_is_never_meant(call: Callable[[], object], said: str) -> None:
    with pytest.warns(RuntimeWarning, match=said) as caught:
        call()
    assert {warning.filename for warning in caught} == {__file__}


def test_values_that_may_be_meant() -> None:
    assert (Raw(b"a") == b"a", Raw(b"a") != b"a", {b"a": 1}[Raw(b"a")]) == (True, False, 1)
    state = Machine.__new__(Machine).state
    assert (state == state, {state: 1}[state]) == (True, 1)
    assert info().state not in ("Migrating", "", "Paused", None)
    assert {"Running": 1}[info().state] == 1
    assert type(info().model_dump()["state"]) is str


@pytest.mark.parametrize(
    ("options", "known"),
    [
        ({"limits": {"memory": 1}}, "Limits has cpu_seconds, file_kib, memory_kib, open_files"),
        ({"terminal": (24, 80)}, "TerminalSize has rows, columns"),
        (
            {"cwd": 1},
            "ProgramSpec has args, env, cwd, user, limits, terminal, stdin, ",
        ),
    ],
)
def test_the_fields_of_what_has_a_wrong_one(options: dict[str, Any], known: str) -> None:
    with pytest.raises(ValidationError) as caught:
        guest().run(["true"], **options)
    assert caught.value.__notes__[0].startswith(known)


def test_a_program_that_has_ended_is_neither_true_nor_false() -> None:
    completed = CompletedProgram(["test", "-f", "/file"], 1, b"", b"")
    with pytest.raises(TypeError, match="test has ended: compare its returncode, or pass check="):
        assert completed
