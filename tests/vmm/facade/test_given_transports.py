"""Any httpx transport is a way to the monitor, and only our own errors come out of it."""

from __future__ import annotations

import asyncio
import gc
import gzip
import json
import ssl
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import h11
import httpx
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
from generated_vmm.transport import AsyncUnixChannel, CallFailed, HttpAnswer, UnixChannel
from generated_vmm.transport.httpx_transports import UnixTransport
from tests.vmm.facade.conftest import Serve, result_of
from tests.vmm.scripted import NO_CONTENT, Wire, answer

ACTED, NOT_SENT = "the monitor may have carried the call out", "nothing was sent"
VERSION = b'{"firecracker_version":"9"}'
ERRORS: list[tuple[Exception, type[VmmError], str]] = [
    (httpx.ConnectTimeout("slow"), VmmTimeoutError, f"slow within 3 s; {NOT_SENT}"),
    (httpx.PoolTimeout(""), VmmTimeoutError, f"PoolTimeout within 3 s; {NOT_SENT}"),
    (httpx.ReadTimeout("slow"), VmmTimeoutError, f"slow within 3 s; {ACTED}"),
    (httpx.WriteTimeout("slow"), VmmTimeoutError, f"slow within 3 s; {ACTED}"),
    (TimeoutError("slow"), VmmTimeoutError, f"did not come within 3 s; {ACTED}"),
    (httpx.ConnectError("no"), VmmConnectionError, f"no connection: no; {NOT_SENT}"),
    (httpx.ReadError("cut"), VmmConnectionError, f"connection lost: cut; {ACTED}"),
    (httpx.WriteError("cut"), VmmConnectionError, f"connection lost: cut; {ACTED}"),
    (httpx.CloseError("cut"), VmmConnectionError, f"connection lost: cut; {ACTED}"),
    (httpx.ProxyError("403"), VmmConnectionError, f"connection lost: 403; {ACTED}"),
    (BrokenPipeError(32, "Broken"), VmmConnectionError, f"lost: .*Broken; {ACTED}"),
    (OSError("odd"), VmmConnectionError, f"connection lost: odd; {ACTED}"),
    (ssl.SSLError("bad certificate"), VmmConnectionError, f"bad certificate.*; {ACTED}"),
    (httpx.RemoteProtocolError("odd"), VmmProtocolError, f"odd; {ACTED}"),
    (httpx.LocalProtocolError("odd"), VmmProtocolError, f"odd; {ACTED}"),
    (httpx.UnsupportedProtocol("odd"), VmmProtocolError, f"odd; {ACTED}"),
    (httpx.DecodingError("odd"), VmmProtocolError, f"raised DecodingError: odd; {ACTED}"),
    (httpx.TooManyRedirects("20"), VmmProtocolError, f"raised TooManyRedirects: 20; {ACTED}"),
    (httpx.InvalidURL("odd"), VmmProtocolError, f"raised InvalidURL: odd; {ACTED}"),
    (httpx.CookieConflict("odd"), VmmProtocolError, f"raised CookieConflict: odd; {ACTED}"),
    (httpx.StreamConsumed(), VmmProtocolError, f"raised StreamConsumed: .*; {ACTED}"),
    (httpx.StreamClosed(), VmmProtocolError, f"raised StreamClosed: .*; {ACTED}"),
    (httpx.ResponseNotRead(), VmmProtocolError, f"raised ResponseNotRead: .*; {ACTED}"),
    (h11.RemoteProtocolError("odd"), VmmProtocolError, f"raised RemoteProtocolError: odd; {ACTED}"),
    (KeyError("odd"), VmmProtocolError, f"raised KeyError: 'odd'; {ACTED}"),
    (RuntimeError("x" * 9_000), VmmProtocolError, f"raised RuntimeError: xxx.*…; {ACTED}"),
]


@pytest.fixture(params=[VmmClient, AsyncVmmClient])
def client(request: pytest.FixtureRequest) -> Callable[[httpx.MockTransport], Any]:
    """A client of each kind through a transport."""

    def made(transport: httpx.MockTransport) -> Any:
        return request.param("/run/vm.sock", timeout=3, transport=transport)

    return made


@pytest.mark.parametrize(("error", "kind", "text"), ERRORS, ids=lambda value: repr(value)[:40])
def test_what_a_transport_raises_is_an_error_of_ours_with_the_call(
    client: Callable[[httpx.MockTransport], Any],
    error: Exception,
    kind: type[VmmError],
    text: str,
) -> None:
    def fail(request: httpx.Request) -> httpx.Response:
        raise error

    with pytest.raises(kind, match=f"^getFirecrackerVersion .* on /run/vm.sock: .*{text}$") as got:
        result_of(lambda: client(httpx.MockTransport(fail)).get_version())
    assert type(got.value) is kind
    assert got.value.operation is not None
    assert got.value.operation.path == "/version"
    assert got.value.__cause__ is error
    assert len(str(got.value)) < 700


def test_an_error_of_ours_goes_through(client: Callable[[httpx.MockTransport], Any]) -> None:
    error = VmmConnectionError("the machine is being moved")

    def fail(request: httpx.Request) -> httpx.Response:
        raise error

    with pytest.raises(VmmConnectionError) as caught:
        result_of(lambda: client(httpx.MockTransport(fail)).get_version())
    assert caught.value is error
    assert error.__cause__ is None


def test_what_is_no_error_goes_through(client: Callable[[httpx.MockTransport], Any]) -> None:
    def stop(request: httpx.Request) -> httpx.Response:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        result_of(lambda: client(httpx.MockTransport(stop)).get_version())


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

    result_of(lambda: client(httpx.MockTransport(note)).drive("a").update(path_on_host="/x"))
    (request,) = asked
    assert (request.method, request.url.raw_path) == ("PATCH", b"/drives/a")
    assert json.loads(request.read()) == {"drive_id": "a", "path_on_host": "/x"}
    assert request.headers["Content-Type"] == "application/json"
    assert request.extensions["timeout"] == dict.fromkeys(("connect", "read", "write", "pool"), 3)


def test_a_closed_client_refuses_calls_through_any_transport(
    client: Callable[[httpx.MockTransport], Any],
) -> None:
    vm = client(httpx.MockTransport(lambda _: httpx.Response(204)))
    result_of(lambda: vm.close())
    with pytest.raises(VmmConnectionError, match="the client is closed; nothing was sent"):
        result_of(lambda: vm.pause())


def test_a_path_that_httpx_refuses_is_an_error_of_ours(
    client: Callable[[httpx.MockTransport], Any],
) -> None:
    vm = client(httpx.MockTransport(lambda _: httpx.Response(204)))
    with pytest.raises(VmmProtocolError, match="raised InvalidURL: URL too long"):
        result_of(lambda: vm.send(Operation("own", "GET", "/" + "x" * 70_000, None, bytes)))


class Unclosable(httpx.MockTransport):
    """A transport that fails at its end."""

    def close(self) -> None:
        raise httpx.CloseError("torn")

    async def aclose(self) -> None:
        raise httpx.CloseError("torn")


def test_a_transport_that_fails_to_close_is_an_error_of_ours(
    client: Callable[[httpx.MockTransport], Any],
) -> None:
    vm = client(Unclosable(lambda _: httpx.Response(204)))
    with pytest.raises(
        VmmConnectionError, match=r"^closing the way to /run/vm\.sock: torn$"
    ) as caught:
        result_of(lambda: vm.close())
    assert caught.value.operation is None
    with pytest.raises(VmmConnectionError, match="the client is closed"):
        result_of(lambda: vm.pause())


def test_httpx_own_transport_keeps_its_connection(serve: Serve, socket_path: Path) -> None:
    server = serve(lambda wire: wire.answer_all(answer(200, VERSION)))
    transport = httpx.HTTPTransport(uds=str(socket_path), verify=False)
    with VmmClient(socket_path, transport=transport) as vm:
        for _ in range(3):
            assert vm.get_version().firecracker_version == "9"
    assert (len(server.requests), len(server.connections)) == (3, 1)


@pytest.mark.parametrize(
    ("play", "kind"),
    [
        (lambda wire: wire.request(), VmmProtocolError),  # httpx: disconnected without a response
        (lambda wire: wire.request() and wire.send(b"220 smtp\r\n"), VmmProtocolError),
    ],
)
def test_httpx_own_transport_fails_as_ours(
    serve: Serve, socket_path: Path, play: Any, kind: type[VmmError]
) -> None:
    serve(play)
    transport = httpx.HTTPTransport(uds=str(socket_path), verify=False)
    with VmmClient(socket_path, transport=transport) as vm, pytest.raises(kind, match=ACTED):
        vm.get_version()


# httpcore leaves a socket that did not connect to the garbage collector, which is run here.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_httpx_own_transport_without_a_socket(socket_path: Path) -> None:
    transport = httpx.HTTPTransport(uds=str(socket_path), verify=False)

    def text_of_failure() -> str:
        with VmmClient(socket_path, transport=transport) as vm:
            try:
                vm.get_version()
            except VmmConnectionError as error:
                return str(error)
        return ""

    assert f"on {socket_path}: no connection: [Errno 2] No such file" in text_of_failure()
    gc.collect()


async def test_httpx_own_async_transport(serve: Serve, socket_path: Path) -> None:
    server = serve(lambda wire: wire.answer_all(answer(200, VERSION)))
    transport = httpx.AsyncHTTPTransport(uds=str(socket_path), verify=False)
    async with AsyncVmmClient(socket_path, transport=transport) as vm:
        for _ in range(3):
            assert (await vm.get_version()).firecracker_version == "9"
    assert (len(server.requests), len(server.connections)) == (3, 1)


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


def broken_wsgi_proxy(environ: Any, start_response: Any) -> list[bytes]:
    raise ZeroDivisionError


async def broken_asgi_proxy(scope: Any, receive: Any, send: Any) -> None:
    raise ZeroDivisionError


async def test_an_application_can_stand_between() -> None:
    async with AsyncVmmClient("/vm", transport=httpx.ASGITransport(asgi_proxy)) as vm:
        assert (await vm.get_version()).firecracker_version == "9"
    with VmmClient("/vm", transport=httpx.WSGITransport(wsgi_proxy)) as sync:
        assert sync.get_version().firecracker_version == "9"


async def test_a_broken_application_is_an_error_of_ours() -> None:
    async with AsyncVmmClient("/vm", transport=httpx.ASGITransport(broken_asgi_proxy)) as vm:
        with pytest.raises(VmmProtocolError, match="ZeroDivisionError"):
            await vm.get_version()
    with (
        VmmClient("/vm", transport=httpx.WSGITransport(broken_wsgi_proxy)) as sync,
        pytest.raises(VmmProtocolError, match="ZeroDivisionError"),
    ):
        sync.get_version()


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


async def test_a_transport_that_never_answers_ends_with_the_time() -> None:
    async def never(request: httpx.Request) -> httpx.Response:
        await asyncio.Event().wait()
        raise AssertionError

    vm = AsyncVmmClient("/vm", timeout=0.1, transport=httpx.MockTransport(never))
    with pytest.raises(VmmTimeoutError, match=f"within 0.1 s; {ACTED}"):
        await vm.get_version()


def test_a_transport_may_wrap_ours(serve: Serve, socket_path: Path) -> None:
    seen: list[int] = []

    class Counted(UnixTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            response = super().handle_request(request)
            seen.append(response.status_code)
            return response

    server = serve(lambda wire: wire.answer_all(NO_CONTENT))
    with VmmClient(socket_path, transport=Counted(socket_path)) as vm:
        vm.pause()
        vm.resume()
    assert seen == [204, 204]
    assert len(server.connections) == 1


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
    ("kind", "channel"),
    [(VmmClient, RefusingChannel), (AsyncVmmClient, AsyncRefusingChannel)],
)
def test_a_channel_may_be_given(kind: Any, channel: Any, serve: Serve, socket_path: Path) -> None:
    server = serve(lambda wire: wire.answer_all(answer(200, VERSION)))
    vm = kind(socket_path, transport=channel(str(socket_path)))
    assert result_of(lambda: vm.get_version()).firecracker_version == "9"
    with pytest.raises(VmmConnectionError, match="no connection: it may only be looked at; noth"):
        result_of(lambda: vm.pause())
    result_of(lambda: vm.close())
    assert len(server.requests) == 1


def silent(wire: Wire) -> None:
    while wire.request():
        pass


def test_a_wrapped_transport_says_what_ours_says(serve: Serve, socket_path: Path) -> None:
    serve(silent)
    texts, causes = [], []
    for transport in (None, UnixTransport(socket_path)):
        with (
            VmmClient(socket_path, timeout=0.1, transport=transport) as vm,
            pytest.raises(VmmTimeoutError) as caught,
        ):
            vm.pause()
        texts.append(str(caught.value))
        causes.append(repr(caught.value.__cause__))
    assert texts[0] == texts[1]
    assert causes == ["None", "ReadTimeout('the answer did not come')"]
