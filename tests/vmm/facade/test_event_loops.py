"""A sync call in an async function warns: nothing else runs in the event loop meanwhile."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path

import pytest

from generated_vmm import AsyncVmmClient, VmmClient
from tests.vmm.facade.conftest import Serve
from tests.vmm.scripted import NO_CONTENT


@pytest.fixture(autouse=True)
def monitor(serve: Serve) -> None:
    serve(lambda wire: wire.answer_all(NO_CONTENT))


async def stops(vm: VmmClient) -> None:
    vm.pause()


def test_the_warning_points_at_the_call(socket_path: Path) -> None:
    with (
        VmmClient(socket_path) as vm,
        pytest.warns(RuntimeWarning, match=r"stops the event loop .* a `def` endpoint") as caught,
    ):
        asyncio.run(stops(vm))
    (warning,) = caught
    assert warning.filename == __file__
    assert warning.lineno == inspect.getsourcelines(stops)[1] + 1


async def test_another_thread_stops_no_event_loop(socket_path: Path) -> None:
    with VmmClient(socket_path) as vm:
        await asyncio.to_thread(vm.pause)


async def test_the_async_client_stops_no_event_loop(socket_path: Path) -> None:
    async with AsyncVmmClient(socket_path) as vm:
        await vm.pause()
