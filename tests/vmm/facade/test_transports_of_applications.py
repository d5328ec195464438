"""An application, or a stream of its own, may stand between a client and the monitor."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import httpx
import pytest

from generated_vmm import (
    AsyncVmmClient,
    Operation,
    VmmClient,
    VmmProtocolError,
    VmmTimeoutError,
)
from generated_vmm.transport._async.httpx import AsyncHttpxChannel
from generated_vmm.transport._sync.httpx import HttpxChannel
from tests.vmm.facade.conftest import result_of

VERSION = b'{"firecracker_version":"9"}'


async def asgi_proxy(scope: Any, receive: Any, send: Any) -> None:
    """A monitor behind an application."""
    assert scope["path"] == "/version"
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": VERSION[:5], "more_body": True})
    await send({"type": "http.response.body", "body": VERSION[5:]})


def wsgi_proxy(environ: Any, start_response: Any) -> list[bytes]:
    """The same for the sync client."""
    start_response("200 OK", [("Content-Type", "application/json")])
    return [VERSION[:5], VERSION[5:]]


async def test_an_application_can_stand_between() -> None:
    async with AsyncVmmClient("/vm", transport=httpx.ASGITransport(asgi_proxy)) as vm:
        assert (await vm.get_version()).firecracker_version == "9"
    with VmmClient("/vm", transport=httpx.WSGITransport(wsgi_proxy)) as sync:
        assert sync.get_version().firecracker_version == "9"


class Stream(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A body that goes on and on, and knows whether it was closed."""

    def __init__(self) -> None:
        self.closed = threading.Event()

    def __iter__(self) -> Iterator[bytes]:
        while True:
            time.sleep(0.01)
            yield b" "

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            await asyncio.sleep(0.01)
            yield b" "

    def close(self) -> None:
        self.closed.set()

    async def aclose(self) -> None:
        self.closed.set()


@pytest.mark.parametrize("kind", [VmmClient, AsyncVmmClient])
def test_an_answer_without_an_end_ends_with_the_time(kind: Any) -> None:
    stream = Stream()
    transport = httpx.MockTransport(lambda _: httpx.Response(200, stream=stream))
    vm = kind("/vm", timeout=0.2, transport=transport)
    began = time.monotonic()
    with pytest.raises(VmmTimeoutError, match=r"did not come within 0.2 s"):
        result_of(lambda: vm.get_version())
    assert time.monotonic() - began < 2
    assert stream.closed.is_set()


async def test_a_stream_that_never_waits_ends_with_the_time_too() -> None:
    """No timer of the event loop has its turn in the meantime."""

    class Busy(Stream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            for part in self:
                yield part

    stream = Busy()
    transport = httpx.MockTransport(lambda _: httpx.Response(200, stream=stream))
    vm = AsyncVmmClient("/vm", timeout=0.2, transport=transport)
    with pytest.raises(VmmTimeoutError, match=r"did not come within 0\.2 s"):
        await vm.get_version()
    assert stream.closed.is_set()


async def test_a_transport_that_never_answers_ends_with_the_time() -> None:
    async def never(request: httpx.Request) -> httpx.Response:
        await asyncio.Event().wait()
        raise AssertionError

    vm = AsyncVmmClient("/vm", timeout=0.1, transport=httpx.MockTransport(never))
    with pytest.raises(VmmTimeoutError, match=r"within 0\.1 s; the monitor may have"):
        await vm.get_version()


def parts(*sizes: int) -> Callable[[httpx.Request], httpx.Response]:
    """Answers with so many bytes at a time."""

    async def made() -> AsyncIterator[bytes]:
        for size in sizes:
            yield bytes(size)

    class Stream(httpx.SyncByteStream, httpx.AsyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            return map(bytes, sizes)

        def __aiter__(self) -> AsyncIterator[bytes]:
            return made()

    return lambda _: httpx.Response(200, stream=Stream())


@pytest.mark.parametrize("kind", [VmmClient, AsyncVmmClient])
def test_the_limit_of_an_answer_is_for_all_its_parts(kind: Any) -> None:
    limit, everything = 1_048_576, Operation("own", "GET", "/own", None, len)
    just = kind("/vm", transport=httpx.MockTransport(parts(limit - 1, 1)))
    assert result_of(lambda: just.send(everything)) == limit
    over = kind("/vm", transport=httpx.MockTransport(parts(limit // 2, limit // 2, 1)))
    with pytest.raises(VmmProtocolError, match=f"the response is larger than {limit} bytes"):
        result_of(lambda: over.send(everything))


@pytest.mark.parametrize("kind", [HttpxChannel, AsyncHttpxChannel])
def test_header_names_come_in_lower_case_from_any_transport(kind: Any) -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(204, headers={"Deprecation": "True"}))
    asked = Operation("own", "GET", "/own", None, bytes)
    answered = result_of(lambda: kind(transport, 10).exchange(asked, 3))
    assert answered.headers == [(b"deprecation", b"True")]
