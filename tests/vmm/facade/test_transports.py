"""Any httpx transport, an application or a channel of one's own is a way to the monitor."""

import asyncio
import gzip
import json
import ssl
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, Mock

import httpx
import httpx2
import pytest

from generated_vmm import (
    AsyncVmmClient,
    Operation,
    VmmApiError,
    VmmClient,
    VmmConnectionError,
    VmmError,
    VmmProtocolError,
    VmmTimeoutError,
)
from generated_vmm.transport import (
    AsyncUnixChannel,
    CallFailed,
    HttpAnswer,
    UnixChannel,
    httpx_values,
)
from generated_vmm.transport._async.httpx import AsyncHttpxChannel
from generated_vmm.transport._sync.httpx import HttpxChannel
from tests.vmm.facade.conftest import Serve, result_of
from tests.vmm.halves import Do
from tests.vmm.scripted import Wire, answer

ACTED, NOT_SENT = "the monitor may have carried the call out", "nothing was sent"
VERSION = b'{"firecracker_version":"9"}'
ERRORS: list[tuple[Exception, type[VmmError], str]] = [
    (TimeoutError("slow"), VmmTimeoutError, f"the response did not come within 3 s; {ACTED}"),
    (BrokenPipeError(32, "Broken"), VmmConnectionError, f"connection lost: .*Broken; {ACTED}"),
    (OSError("odd"), VmmConnectionError, f"connection lost: odd; {ACTED}"),
    (ssl.SSLError("bad"), VmmConnectionError, f"connection lost: .*bad.*; {ACTED}"),
    (KeyError("odd"), VmmProtocolError, f"the transport raised KeyError: 'odd'; {ACTED}"),
    (
        RuntimeError("x" * 9_000),
        VmmProtocolError,
        f"the transport raised RuntimeError: xxx.*…; {ACTED}",
    ),
]
FAILURES = {
    "ConnectTimeout": (VmmTimeoutError, f"odd within 3 s; {NOT_SENT}"),
    "PoolTimeout": (VmmTimeoutError, f"odd within 3 s; {NOT_SENT}"),
    "ReadTimeout": (VmmTimeoutError, f"odd within 3 s; {ACTED}"),
    "ConnectError": (VmmConnectionError, f"no connection: odd; {NOT_SENT}"),
    "ReadError": (VmmConnectionError, f"connection lost: odd; {ACTED}"),
    "ProxyError": (VmmConnectionError, f"connection lost: odd; {ACTED}"),
    "RemoteProtocolError": (VmmProtocolError, f"odd; {ACTED}"),
    "InvalidURL": (VmmProtocolError, f"the transport raised InvalidURL: odd; {ACTED}"),
    "DecodingError": (VmmProtocolError, f"the transport raised DecodingError: odd; {ACTED}"),
}
LIBRARIES: list[Any] = [httpx, httpx2]
ERRORS += [
    (getattr(library, name)("odd"), kind, text)
    for library in LIBRARIES
    for name, (kind, text) in FAILURES.items()
]


@pytest.fixture(params=[VmmClient, AsyncVmmClient])
def client(request: pytest.FixtureRequest) -> Callable[[httpx.MockTransport], Any]:
    """A client of each kind through a transport."""

    def made(transport: httpx.MockTransport) -> Any:
        return request.param("/run/vm.sock", timeout=3, transport=transport)

    return made


@pytest.mark.parametrize(("error", "kind", "text"), ERRORS, ids=lambda value: repr(value)[:40])
def test_what_a_transport_raises_is_an_error_of_ours_with_the_call(
    client: Callable[[Any], Any], error: Exception, kind: type[VmmError], text: str
) -> None:
    library = LIBRARIES[type(error).__module__ == "httpx2"]
    with pytest.raises(kind, match=rf"^getFirecrackerVersion .* on /run/vm\.sock: {text}$") as got:
        result_of(lambda: client(library.MockTransport(Mock(side_effect=error))).get_version())
    assert type(got.value) is kind
    assert got.value.operation is not None
    assert got.value.operation.path == "/version"
    assert got.value.__cause__ is error
    assert len(str(got.value)) < 700


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_transport_gets_requests_of_its_own_library(
    client: Callable[[Any], Any], library: Any
) -> None:
    def answered(request: Any) -> Any:
        assert isinstance(request, library.Request)
        return library.Response(200, content=VERSION)

    vm = client(library.MockTransport(answered))
    assert result_of(vm.get_version).firecracker_version == "9"
    assert httpx_values.library_of(object()) is httpx


@pytest.mark.parametrize(
    "error", [VmmConnectionError("the machine is being moved"), KeyboardInterrupt()], ids=repr
)
def test_an_error_of_ours_and_what_is_no_error_go_through(
    client: Callable[[httpx.MockTransport], Any], error: BaseException
) -> None:
    with pytest.raises(type(error)) as caught:
        result_of(lambda: client(httpx.MockTransport(Mock(side_effect=error))).get_version())
    assert caught.value is error
    assert error.__cause__ is None


@pytest.mark.parametrize(
    ("client", "transport", "kind", "needed"),
    [
        (AsyncVmmClient, httpx.HTTPTransport(), "httpx.*HTTPTransport", "AsyncBaseTransport"),
        (VmmClient, httpx2.AsyncHTTPTransport(), "httpx2.*AsyncHTTPTransport", "BaseTransport"),
    ],
)
def test_a_transport_of_the_other_kind_is_refused_by_the_constructor(
    client: Any, transport: Any, kind: str, needed: str
) -> None:
    expected = f"transport is a {kind}; {client.__name__} needs the {needed} of httpx or httpx2$"
    with pytest.raises(TypeError, match=expected):
        client("/run/vm.sock", transport=transport)


ODD_ANSWERS: dict[str, tuple[Callable[[], Any], type[VmmError], str]] = {
    "none": (lambda: None, VmmProtocolError, "the transport raised (Attribute|Type)Error"),
    "a redirect": (lambda: httpx.Response(302, headers={"Location": "/"}), VmmApiError, "302"),
    "no content": (lambda: httpx.Response(204), VmmProtocolError, "is not JSON"),
    "broken gzip": (
        lambda: httpx.Response(
            200, headers={"Content-Encoding": "gzip"}, stream=httpx.ByteStream(VERSION)
        ),
        VmmProtocolError,
        "DecodingError",
    ),
    "huge": (lambda: httpx.Response(200, content=bytes(1_048_577)), VmmProtocolError, "larger"),
}


@pytest.mark.parametrize(("given", "kind", "text"), ODD_ANSWERS.values(), ids=ODD_ANSWERS)
def test_an_odd_answer_is_an_error_of_ours(
    client: Callable[[httpx.MockTransport], Any],
    given: Callable[[], Any],
    kind: type[VmmError],
    text: str,
) -> None:
    with pytest.raises(kind, match=text):
        result_of(lambda: client(httpx.MockTransport(lambda _: given())).get_version())


def test_an_answer_that_a_proxy_compressed_is_read(
    client: Callable[[httpx.MockTransport], Any],
) -> None:
    def compressed(request: httpx.Request) -> httpx.Response:
        return httpx.Response(
            200, headers={"Content-Encoding": "gzip"}, content=gzip.compress(VERSION)
        )

    answered = result_of(lambda: client(httpx.MockTransport(compressed)).get_version())
    assert answered.firecracker_version == "9"


def test_the_request_is_the_one_that_goes_over_the_socket(
    client: Callable[[httpx.MockTransport], Any],
) -> None:
    asked: list[httpx.Request] = []

    def note(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(204)

    vm = client(httpx.MockTransport(note))
    result_of(lambda: vm.drive("a").update(path_on_host="/x"))
    result_of(lambda: vm.send(Operation("own", "GET", "/own", None, bytes)))
    request, without_body = asked
    assert "Content-Type" not in without_body.headers
    assert (request.method, request.url.raw_path) == ("PATCH", b"/drives/a")
    assert json.loads(request.read()) == {"drive_id": "a", "path_on_host": "/x"}
    assert request.headers["Host"] == "localhost"
    assert request.headers["Content-Type"] == "application/json"
    assert request.extensions["timeout"] == dict.fromkeys(("connect", "read", "write", "pool"), 3)


class Unclosable(httpx.MockTransport):
    """A transport that fails at its end."""

    close = Mock(side_effect=httpx.CloseError("torn"))
    aclose = AsyncMock(side_effect=httpx.CloseError("torn"))


def test_a_transport_that_fails_to_close_is_an_error_of_ours(
    client: Callable[[httpx.MockTransport], Any],
) -> None:
    vm = client(Unclosable(lambda _: httpx.Response(204)))
    with pytest.raises(
        VmmConnectionError, match=r"^closing the connection to /run/vm\.sock: torn$"
    ) as caught:
        result_of(lambda: vm.close())
    assert caught.value.operation is None
    with pytest.raises(VmmConnectionError, match="the client is closed; nothing was sent"):
        result_of(lambda: vm.pause())


# The transports that httpx has itself are ways to the monitor


@pytest.mark.parametrize(
    ("kind", "own"),
    [(VmmClient, httpx.HTTPTransport), (AsyncVmmClient, httpx.AsyncHTTPTransport)],
)
def test_httpx_own_transport_keeps_its_connection(
    do: Do, serve: Serve, socket_path: Path, kind: Any, own: Any
) -> None:
    server = serve(lambda wire: wire.answer_all(answer(200, VERSION)))
    vm = kind(socket_path, transport=own(uds=str(socket_path), verify=False))
    for _ in range(3):
        assert do(vm.get_version()).firecracker_version == "9"
    do(vm.close())
    assert (len(server.requests), len(server.connections)) == (3, 1)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("kind", [VmmClient, AsyncVmmClient])
def test_the_response_to_the_rest_of_a_refused_request_reaches_no_other_call(
    serve: Serve, socket_path: Path, library: Any, kind: Any
) -> None:
    """The monitor's HTTP layer reads that rest as the next request."""

    def play(wire: Wire) -> None:
        is_first = not server.requests
        wire.request()
        wire.send(answer(400, b'{"error":"too large"}') if is_first else answer(200, VERSION))
        wire.answer_all(answer(400, b'{"error":"invalid request"}'))

    server = serve(play)
    transports = library.HTTPTransport, library.AsyncHTTPTransport
    transport = transports[kind is AsyncVmmClient](
        uds=str(socket_path), verify=False, limits=library.Limits(max_connections=1)
    )
    vm = kind(socket_path, transport=transport)

    async def call() -> str:
        try:
            found = vm.get_version()
            found = await found if kind is AsyncVmmClient else found
        except VmmApiError as error:
            return str(error.fault_message)
        return str(found.firecracker_version)

    async def calls() -> tuple[str, str]:
        """Of two tasks, the second waits in the pool for the connection of the first."""
        first, second = await asyncio.gather(call(), call())
        closing = vm.close()
        if closing is not None:
            await closing
        return first, second

    assert asyncio.run(calls()) == ("too large", "9")


# An application, or a stream of its own, may stand between a client and the monitor


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
    with pytest.raises(VmmTimeoutError, match=r"did not come within 0.2 s"):
        result_of(lambda: vm.get_version())
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


# Our own channel may be replaced


def test_a_channel_says_why_there_is_no_answer() -> None:
    assert str(CallFailed(VmmTimeoutError, "too late\nfor it", sent=True)) == "too late for it"


class RefusingChannel(UnixChannel):
    """Lets nothing through but what looks."""

    def exchange(self, operation: Operation[object], seconds: float | None) -> HttpAnswer:
        if operation.method != "GET":
            raise CallFailed(VmmConnectionError, "it may only be looked at", sent=False)
        return super().exchange(operation, seconds)


class AsyncRefusingChannel(AsyncUnixChannel):
    """The same for the async client."""

    async def exchange(self, operation: Operation[object], seconds: float | None) -> HttpAnswer:
        if operation.method != "GET":
            raise CallFailed(VmmConnectionError, "it may only be looked at", sent=False)
        return await super().exchange(operation, seconds)


@pytest.mark.parametrize(
    ("kind", "channel"), [(VmmClient, RefusingChannel), (AsyncVmmClient, AsyncRefusingChannel)]
)
def test_a_channel_may_be_given(kind: Any, channel: Any, serve: Serve, socket_path: Path) -> None:
    server = serve(lambda wire: wire.answer_all(answer(200, VERSION)))
    vm = kind(socket_path, transport=channel(str(socket_path)))
    assert result_of(lambda: vm.get_version()).firecracker_version == "9"
    with pytest.raises(VmmConnectionError, match="no connection: it may only be looked at; noth"):
        result_of(lambda: vm.pause())
    result_of(lambda: vm.close())
    assert len(server.requests) == 1
