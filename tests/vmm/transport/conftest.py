from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import pytest

from generated_vmm.errors import VmmError
from generated_vmm.operation import Method, Operation
from generated_vmm.transport import AsyncUnixChannel, CallFailed, HttpAnswer, UnixChannel
from tests.vmm.halves import Do
from tests.vmm.scripted import Serve as Serve
from tests.vmm.scripted import served

LIMIT = 10_000


class Call(Protocol):
    """Sends one request through the channel under test."""

    def __call__(
        self, method: Method = "GET", body: bytes = b"", *, timeout: float | None = 5.0
    ) -> HttpAnswer: ...


def request(method: Method = "GET", body: bytes = b"", path: str = "/") -> Operation[bytes]:
    return Operation("own", method, path, body, bytes)


@contextmanager
def fails(kind: type[VmmError], *, sent: bool, match: str | None = None) -> Iterator[None]:
    """A call fails for this reason, and may have been sent or not."""
    with pytest.raises(CallFailed, match=match) as caught:
        yield
    assert (caught.value.kind, caught.value.sent) == (kind, sent)


def calling(kind: type[UnixChannel | AsyncUnixChannel], do: Do, path: Path) -> Iterator[Call]:
    channel = kind(str(path), LIMIT)

    def call(
        method: Method = "GET", body: bytes = b"", *, timeout: float | None = 5.0
    ) -> HttpAnswer:
        return do(channel.exchange(request(method, body), timeout))

    yield call
    do(channel.close())


@pytest.fixture
def socket_path(tmp_path: Path) -> Path:
    return tmp_path / "vmm.sock"


@pytest.fixture
def call(do: Do, socket_path: Path) -> Iterator[Call]:
    """One call after another through one channel for tasks; the other one is derived from it."""
    yield from calling(AsyncUnixChannel, do, socket_path)


@pytest.fixture(params=[UnixChannel, AsyncUnixChannel])
def call_each(request: pytest.FixtureRequest, do: Do, socket_path: Path) -> Iterator[Call]:
    """The same through a channel of each kind: for waits, which `concurrency` has twice."""
    yield from calling(request.param, do, socket_path)


@pytest.fixture
def serve(socket_path: Path) -> Iterator[Serve]:
    """Starts servers that play what the test says, on the path that `call` connects to."""
    yield from served(socket_path)
