"""What a member takes, and what is refused before anything is sent."""

from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import pytest
from pydantic import ValidationError

from generated_vmm import (
    AsyncVmmClient,
    Balloon,
    Drive,
    MmdsContentsObject,
    RateLimiter,
    SnapshotCreateParams,
    TokenBucket,
    VmmClient,
    VmmRequestTooLarge,
)
from generated_vmm._generated import operations
from generated_vmm.testing import SimulatedMonitor
from tests.vmm.facade.conftest import Run
from tests.vmm.scripted import ScriptedServer

LIMITER = {"bandwidth": {"size": 512, "refill_time": 20}}
DRIVE = {"drive_id": "d", "is_root_device": False, "path_on_host": "/d", "rate_limiter": LIMITER}
DRIVES: dict[str, Callable[[VmmClient], None]] = {
    "model": lambda vm: vm.drive("d").set(
        Drive(
            drive_id="d",
            is_root_device=False,
            path_on_host="/d",
            rate_limiter=RateLimiter(bandwidth=TokenBucket(size=512, refill_time=20)),
        )
    ),
    "mapping with the id": lambda vm: vm.drive("d").set(DRIVE),
    "other mapping": lambda vm: vm.drive("d").set(MappingProxyType(DRIVE)),
    "mapping without the id": lambda vm: vm.drive("d").set(
        {name: value for name, value in DRIVE.items() if name != "drive_id"}
    ),
    "keyword arguments, of which None is not sent": lambda vm: vm.drive("d").set(
        is_root_device=False,
        path_on_host="/d",
        rate_limiter={"bandwidth": {"size": 512, "refill_time": 20}},
        partuuid=None,
    ),
}
# Calls that a type checker refuses are made on an untyped client.
REFUSED: dict[str, tuple[Callable[[Any], object], type[Exception], str]] = {
    "wrong type": (
        lambda vm: vm.machine_config.set(vcpu_count="2", mem_size_mib=512),
        ValidationError,
        "vcpu_count",
    ),
    "unknown value": (lambda vm: vm.action("InstanceStrat"), ValidationError, "InstanceStart"),
    "unknown field": (
        lambda vm: vm.boot_source.set(kernel_image_path="/k", kernel_args="quiet"),
        ValidationError,
        "kernel_args",
    ),
    "field missing": (lambda vm: vm.boot_source.set(), ValidationError, "kernel_image_path"),
    "another model": (
        lambda vm: vm.boot_source.set(Balloon(amount_mib=1, deflate_on_oom=True)),
        ValidationError,
        "BootSource",
    ),
    "no JSON": (lambda vm: vm.mmds.set({"a": object()}), ValidationError, "JSON"),
    "another id in a mapping": (
        lambda vm: vm.drive("a").set({"drive_id": "b", "is_root_device": True}),
        ValueError,
        "drive_id is 'b', but the path has 'a'",
    ),
    "another id as an argument": (
        lambda vm: vm.drive("a").update(drive_id="b"),
        ValueError,
        "drive_id is 'b', but the path has 'a'",
    ),
    "both a body and arguments": (
        lambda vm: vm.vm.update({"state": "Paused"}, state="Paused"),
        TypeError,
        "not both",
    ),
    "id with a hyphen": (lambda vm: vm.drive("root-fs").delete(), ValueError, "root-fs"),
    "empty id": (lambda vm: vm.network_interface("").delete(), ValueError, "iface_id ''"),
    "id that is a number": (lambda vm: vm.drive(cast(str, 1)), ValueError, "drive_id 1 may only"),
    "id with a line break": (lambda vm: vm.drive("a\n").delete(), ValueError, "drive_id"),
    "one file for state and memory": (
        lambda vm: vm.send(
            operations.create_snapshot(
                SnapshotCreateParams(snapshot_path="/vm/web", mem_file_path=Path("/vm/web"))
            )
        ),
        ValidationError,
        "mem_file_path and snapshot_path are both '/vm/web': they must be two files",
    ),
    "oversize body": (
        lambda vm: vm.mmds.set({"a": "x" * 51_193}),
        VmmRequestTooLarge,
        "the body has 51201 bytes, the limit is 51200; nothing was sent",
    ),
}


@pytest.mark.parametrize("call", DRIVES.values(), ids=DRIVES)
def test_every_form_sends_the_same_with_the_id_of_the_path(
    run: Run, accepting: ScriptedServer, call: Callable[[VmmClient], None]
) -> None:
    run(call)
    assert accepting.sent() == [("PUT /drives/d", DRIVE)]


@pytest.mark.parametrize(("call", "error", "text"), REFUSED.values(), ids=REFUSED)
def test_what_the_monitor_would_refuse_is_never_sent(
    run: Run,
    accepting: ScriptedServer,
    call: Callable[[Any], object],
    error: type[Exception],
    text: str,
) -> None:
    with pytest.raises(error) as caught:
        run(call)
    assert text in str(caught.value)
    assert isinstance(caught.value, ValueError | TypeError)
    run(lambda vm: vm.pause())
    assert accepting.sent() == [("PATCH /vm", {"state": "Paused"})]


def test_the_largest_body_that_fits_is_sent(run: Run, accepting: ScriptedServer) -> None:
    contents = MmdsContentsObject({"a": "x" * 51_192})
    assert len(contents.to_json()) == 51_200
    run(lambda vm: vm.mmds.set(contents))
    assert len(accepting.requests) == 1


def test_a_model_may_be_used_again(run: Run, accepting: ScriptedServer) -> None:
    drive = Drive(drive_id="d", is_root_device=False)
    for _ in range(2):
        run(lambda vm: vm.drive("d").set(drive))
    assert accepting.requests[0] == accepting.requests[1]
    assert drive == Drive(drive_id="d", is_root_device=False)


# A part of the microVM is changed by calls: an assignment is an error that names them


VM = AsyncVmmClient("/nowhere")
ONLY = "cannot be assigned: only calls change a microVM"
ASSIGNED = [
    (VM, "machine_config", f"{ONLY}; call machine_config.set(...) or machine_config.update(...)"),
    (VM, "vm_config", ONLY),
    (VM.machine_config, "vcpu_count", f"{ONLY}; call set(...) or update(...)"),
    (VM, "timeout", "cannot be assigned: with_options(timeout=...) returns a client"),
    (VM.balloon, "stats", f"{ONLY}; call stats.update(...)"),
]


@pytest.mark.parametrize(("owner", "name", "said"), ASSIGNED)
def test_it_is_refused(owner: object, name: str, said: str) -> None:
    with pytest.raises(AttributeError) as caught:
        setattr(owner, name, 2)
    assert str(caught.value) == f"{name} {said}"


def test_a_client_may_have_attributes_of_its_owner() -> None:
    client = AsyncVmmClient("/nowhere")
    client.name = "one"  # type: ignore[attr-defined]  # which is the point
    assert vars(client)["name"] == "one"


# What is no path of a socket says what to write


@pytest.mark.parametrize("kind", [VmmClient, AsyncVmmClient])
@pytest.mark.parametrize(
    ("path", "error", "said"),
    [
        ("http://localhost:8080", ValueError, "not a URL: 'http://local"),
        ("unix:/run/vm.sock", ValueError, "without unix: before it"),
        ("~/vm.sock", ValueError, "os.path.expanduser"),
        ("127.0.0.1:8080", ValueError, "not an address"),
        (8080, TypeError, "not of type int$"),
        (SimulatedMonitor("vm.sock"), TypeError, "not of type SimulatedMonitor: pass its socket_p"),
    ],
)
def test_what_is_no_path_of_a_socket(
    kind: Callable[[object], object], path: object, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=f"socket_path is .*{said}"):
        kind(path)


@pytest.mark.parametrize("path", ["vm:1/x.sock", "./unix:x", "a~/x", "~x"])
def test_a_path_may_have_any_characters(path: str) -> None:
    assert repr(VmmClient(path)) == f"VmmClient({path!r}, timeout=5.0)"
    assert Drive(drive_id="a", is_root_device=True, path_on_host=path).path_on_host == path
