"""Any httpx transport is a way to the monitor, and only our own errors come out of it."""

from __future__ import annotations

import gzip
import json
import ssl
from collections.abc import Callable
from typing import Any

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
from generated_vmm.transport import httpx_values
from tests.vmm.facade.conftest import result_of

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
    client: Callable[[Any], Any],
    error: Exception,
    kind: type[VmmError],
    text: str,
) -> None:
    def fail(request: object) -> Any:
        raise error

    library = LIBRARIES[type(error).__module__ == "httpx2"]
    with pytest.raises(kind, match=rf"^getFirecrackerVersion .* on /run/vm\.sock: {text}$") as got:
        result_of(lambda: client(library.MockTransport(fail)).get_version())
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


def test_a_closed_client_refuses_calls_through_any_transport(
    client: Callable[[httpx.MockTransport], Any],
) -> None:
    vm = client(httpx.MockTransport(lambda _: httpx.Response(204)))
    result_of(lambda: vm.close())
    with pytest.raises(VmmConnectionError, match="the client is closed; nothing was sent"):
        result_of(lambda: vm.pause())


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
        VmmConnectionError, match=r"^closing the connection to /run/vm\.sock: torn$"
    ) as caught:
        result_of(lambda: vm.close())
    assert caught.value.operation is None
    with pytest.raises(VmmConnectionError, match="the client is closed"):
        result_of(lambda: vm.pause())
