"""Warnings at the line of the call: of deprecations, and of sync calls in an event loop."""

import asyncio
import inspect
import linecache
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from generated_vmm import AsyncVmmClient, VmmApiError, VmmClient, VmmDeprecationWarning
from tests.vmm.facade.conftest import Run, Serve
from tests.vmm.scripted import NO_CONTENT, Wire, answer

DEPRECATED = b"HTTP/1.1 204 \r\nConnection: keep-alive\r\nDeprecation: true\r\n\r\n"
CALLS: dict[str, Callable[[VmmClient], object]] = {
    "a resource": lambda vm: vm.vsock.set(guest_cid=3, uds_path="/v", vsock_id="v"),
    "a resource with an id": lambda vm: vm.drive("d").update(path_on_host="/d"),
    "the client": lambda vm: vm.pause(),
    "a shorthand": lambda vm: vm.action("InstanceStart"),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_the_warning_points_at_the_call(
    serve: Serve, socket_path: Path, call: Callable[[VmmClient], object]
) -> None:
    serve(lambda wire: wire.answer_all(DEPRECATED))
    with VmmClient(socket_path) as vm, pytest.warns(VmmDeprecationWarning) as caught:
        call(vm)
    (warning,) = caught
    assert warning.filename == __file__
    assert warning.lineno == inspect.getsourcelines(call)[1]


async def test_the_warning_points_at_the_awaited_call(serve: Serve, socket_path: Path) -> None:
    serve(lambda wire: wire.answer_all(DEPRECATED))
    async with AsyncVmmClient(socket_path) as vm:
        with pytest.warns(VmmDeprecationWarning) as caught:
            await vm.drive("d").update(path_on_host="/d")
    (warning,) = caught
    assert warning.filename == __file__
    assert "await vm.drive" in linecache.getline(__file__, warning.lineno)


def test_a_refusal_may_be_deprecated_too(run: Run, serve: Serve) -> None:
    refusal = answer(400, b'{"fault_message":"no"}', b"Deprecation: true")
    serve(lambda wire: wire.answer_all(refusal))
    warned = pytest.warns(VmmDeprecationWarning, match=r" \(PATCH /vm\): the monitor says that ")
    with warned, pytest.raises(VmmApiError, match="no"):
        run(lambda vm: vm.pause())


@pytest.mark.parametrize("header", [b"Deprecation: false", b"X-Deprecation: true"])
def test_nothing_else_warns(run: Run, serve: Serve, header: bytes) -> None:
    def play(wire: Wire) -> None:
        wire.answer_all(NO_CONTENT.replace(b"\r\n\r\n", b"\r\n" + header + b"\r\n\r\n"))

    serve(play)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run(lambda vm: vm.pause())
    assert caught == []


# A sync call in an async function warns: nothing else runs in the event loop meanwhile


async def stops(vm: VmmClient) -> None:
    vm.pause()


@pytest.mark.usefixtures("accepting")
def test_a_sync_call_in_a_task_warns_at_its_line(socket_path: Path) -> None:
    with (
        VmmClient(socket_path) as vm,
        pytest.warns(RuntimeWarning, match=r"stops the event loop .* a `def` endpoint") as caught,
    ):
        asyncio.run(stops(vm))
    (warning,) = caught
    assert warning.filename == __file__
    assert warning.lineno == inspect.getsourcelines(stops)[1] + 1


@pytest.mark.usefixtures("accepting")
async def test_another_thread_stops_no_event_loop(socket_path: Path) -> None:
    with VmmClient(socket_path) as vm:
        await asyncio.to_thread(vm.pause)
