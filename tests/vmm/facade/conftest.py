import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest

from generated_vmm import AsyncVmmClient, VmmClient
from tests.vmm.halves import Do
from tests.vmm.scripted import NO_CONTENT, ScriptedServer, served
from tests.vmm.scripted import Serve as Serve

T = TypeVar("T")


class Run(Protocol):
    """Makes a call on a client of either kind and gives back its result, awaited if need be.

    Calls are written against the sync client; the async one has the same members.
    """

    def __call__(self, call: Callable[[VmmClient], T], *, timeout: float | None = ...) -> T: ...


def result_of(call: Callable[[], Awaitable[T] | T]) -> T:
    """What the call gives, awaited if need be, in an event loop of its own."""
    result = call()

    async def wait(awaitable: Awaitable[T]) -> T:
        return await awaitable

    return asyncio.run(wait(result)) if inspect.isawaitable(result) else result


def running(kind: type[VmmClient] | type[AsyncVmmClient], do: Do, path: Path) -> Iterator[Run]:
    client: Any = kind(path)

    def run(call: Callable[[VmmClient], T], *, timeout: float | None = 5.0) -> T:
        return do(call(client.with_options(timeout=timeout)))

    yield run
    do(client.close())


@pytest.fixture
def socket_path(tmp_path: Path) -> Path:
    return tmp_path / "vmm.sock"


@pytest.fixture
def run(do: Do, socket_path: Path) -> Iterator[Run]:
    """Calls through one client for tasks; the other one is derived from it."""
    yield from running(AsyncVmmClient, do, socket_path)


@pytest.fixture(params=[VmmClient, AsyncVmmClient])
def run_each(request: pytest.FixtureRequest, do: Do, socket_path: Path) -> Iterator[Run]:
    """Calls through one client of each kind: for waits, which `concurrency` has twice."""
    yield from running(request.param, do, socket_path)


@pytest.fixture
def serve(socket_path: Path) -> Iterator[Serve]:
    """Starts a server that plays what the test says, on the path that `run` connects to."""
    yield from served(socket_path)


@pytest.fixture
def accepting(serve: Serve) -> ScriptedServer:
    """A server that answers every call with 204."""
    return serve(lambda wire: wire.answer_all(NO_CONTENT))
