"""Exchanges with the OP and its responses; own authorities, client certificates, proxies."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest

from fastapi_oidc.errors import Code, ConfigurationError, ProviderError
from fastapi_oidc.protocol.claims import TrustedIssuer
from fastapi_oidc.provider.document import VerifiedToken
from fastapi_oidc.provider.http import HTTPClient, OPResponse, budget, cause_of
from fastapi_oidc.provider.network import HTTPOptions, Network
from tests.oidc.protocol.examples import refused
from tests.oidc.provider.certificates import Authority, listening_with_tls
from tests.oidc.provider.op import OP, SigningKey
from tests.oidc.provider.sockets import Script, listening, whole
from tests.oidc.virtual_time import VirtualTimeLoop

URL = "https://op.test/path"
Result = TypeVar("Result")
Handler = Callable[[httpx.Request], httpx.Response]


def client_for(handler: Handler, *, max_answer_bytes: int = 1000) -> HTTPClient:
    network = Network(httpx.MockTransport(handler))
    return HTTPClient(network, HTTPOptions(), max_answer_bytes=max_answer_bytes)


def answering(response: httpx.Response) -> Handler:
    return lambda request: response


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_refused_and_not_followed(status: int) -> None:
    seen: list[str] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(str(request.url))
        return httpx.Response(status, headers={"Location": "https://evil.test/"})

    with refused(Code.PROVIDER_REDIRECTED, ProviderError):
        await client_for(handler).request("POST", URL, form={})
    assert seen == [URL]


async def test_an_answer_of_exactly_the_limit_is_read_and_one_byte_more_is_refused() -> None:
    longest, longer = (httpx.Response(200, content=b"x" * size) for size in (1000, 1001))
    answer = await client_for(answering(longest)).request("GET", URL)
    assert len(answer.body) == 1000
    with refused(Code.PROVIDER_ANSWER_TOO_LARGE, ProviderError):
        await client_for(answering(longer)).request("GET", URL)


async def test_reading_stops_at_the_limit() -> None:
    chunks_sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal chunks_sent
        for _ in range(1000):
            chunks_sent += 1
            yield b"x" * 100

    with refused(Code.PROVIDER_ANSWER_TOO_LARGE, ProviderError):
        await client_for(lambda request: httpx.Response(200, content=endless())).request("GET", URL)
    assert chunks_sent == 11


async def test_a_compressed_answer_is_refused_before_it_unfolds() -> None:
    async def never_read() -> AsyncIterator[bytes]:
        pytest.fail("the body was read")
        yield b""

    def handler(request: httpx.Request) -> httpx.Response:
        assert request.headers["Accept-Encoding"] == "identity"
        return httpx.Response(200, headers={"Content-Encoding": "gzip"}, content=never_read())

    with refused(Code.PROVIDER_ANSWER_MALFORMED, ProviderError):
        await client_for(handler).request("GET", URL)


async def test_a_cookie_of_the_provider_is_not_kept() -> None:
    cookies: list[str | None] = []

    def handler(request: httpx.Request) -> httpx.Response:
        cookies.append(request.headers.get("Cookie"))
        return httpx.Response(200, headers={"Set-Cookie": "user=alice; Path=/"})

    client = client_for(handler)
    await client.request("GET", URL)
    await client.request("GET", URL)
    assert cookies == [None, None]


@asynccontextmanager
async def client(*, timeout: float = 5.0) -> AsyncIterator[HTTPClient]:  # noqa: ASYNC109
    network = Network()
    try:
        yield HTTPClient(network, HTTPOptions(), timeout=timeout, max_answer_bytes=100_000)
    finally:
        await network.aclose()


def writes(content: bytes) -> Script:
    async def script(writer: asyncio.StreamWriter) -> None:
        writer.write(content)
        await writer.drain()

    return script


async def drips_for_ever(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n")
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.02)


async def says_nothing(writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def hangs_up(writer: asyncio.StreamWriter) -> None:
    pass


@pytest.mark.parametrize("script", [drips_for_ever, says_nothing])
async def test_the_limit_is_over_the_whole_exchange(script: Script) -> None:
    async with listening(script) as server, client(timeout=0.5) as http:
        with refused(Code.PROVIDER_TIMEOUT, ProviderError):
            await http.request("GET", server.url)


@pytest.mark.parametrize(("method", "connections"), [("GET", 2), ("POST", 1)])
async def test_only_a_get_is_sent_again_after_a_hang_up(method: str, connections: int) -> None:
    async with listening(hangs_up, writes(whole(b"ok"))) as server, client() as http:
        request = http.request(method, server.url, form=None if method == "GET" else {"code": "c"})
        if method == "GET":
            assert (await request).body == b"ok"
        else:
            with refused(Code.PROVIDER_UNREACHABLE, ProviderError):
                await request
    assert server.connections == connections


def caused(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error


RAISED_AGAIN = httpx.ReadError("x")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            caused(httpx.ConnectError("x"), socket.gaierror(-2, "Name or service not known")),
            "ConnectError: Name or service not known",
        ),
        (
            caused(httpx.ConnectError("x"), ExceptionGroup("all", [OSError(111, "refused")])),
            "ConnectError: refused",
        ),
        (caused(httpx.ConnectError("all failed"), OSError()), "ConnectError: all failed"),
        (caused(httpx.ReadError(""), ConnectionResetError(104, "reset")), "ReadError: reset"),
        (caused(RAISED_AGAIN, caused(ValueError(), RAISED_AGAIN)), "ReadError: x"),
        (httpx.ConnectTimeout(""), "ConnectTimeout"),
        (httpx.ProxyError("407\r\nX"), r"ProxyError: 407\r\nX"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_the_cause_is_named(error: Exception, words: str) -> None:
    assert cause_of(error) == words


async def ends_too_early(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort")
    await writer.drain()


async def test_what_httpx_quotes_of_a_proxy_or_a_header_is_not_told() -> None:
    # In a URL, a password ends at these characters unless they are escaped.
    for ends in "/?#":
        proxied = HTTPOptions(proxy=f"http://user:s3cret{ends}word@127.0.0.1:3128")
        with pytest.raises(ProviderError) as caught:
            await HTTPClient(Network(), proxied).request("GET", URL)
        assert "s3cret" not in str(caught.value)
    token = "s3cret" * 400 + " "  # longer than what is shown, and no value of a header
    async with listening(writes(whole(b"{}"))) as server, client() as http:
        headers = {"Authorization": f"Bearer {token}"}
        with pytest.raises(ProviderError) as caught:
            await http.request("GET", server.url, headers=headers, sent=(token,))
    assert "s3cret" not in str(caught.value)


async def answers(writer: asyncio.StreamWriter) -> None:
    writer.write(whole(b"ok", "Connection: close"))
    await writer.drain()


async def body_of(url: str, options: HTTPOptions) -> bytes:
    network = Network()
    try:
        return (await HTTPClient(network, options, timeout=5).request("GET", url)).body
    finally:
        await network.aclose()


async def failure_of(url: str, options: HTTPOptions) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await body_of(url, options)
    return caught.value


async def test_a_broken_answer_is_told_as_such() -> None:
    async with listening(ends_too_early) as server:
        error = await failure_of(server.url, HTTPOptions())
    assert (error.code, error.details) == (Code.PROVIDER_UNREACHABLE, {"url": server.url})
    assert error.explanation.startswith("RemoteProtocolError: ")
    assert server.connections == 2


async def test_a_url_that_cannot_be_asked_is_an_error_of_the_provider() -> None:
    error = await failure_of("https://999.1.1.1/?x=1", HTTPOptions())
    assert (error.explanation, error.details["url"]) == ("InvalidURL", "https://999.1.1.1/")


async def test_an_own_authority_is_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, other = Authority(tmp_path, "ours"), Authority(tmp_path, "other")
    async with listening_with_tls(answers, ours.issue("server")) as server:
        assert await body_of(server.url, HTTPOptions(ca_file=ours.file)) == b"ok"
        context = ssl.create_default_context(cafile=ours.file)
        assert await body_of(server.url, HTTPOptions(ssl_context=context)) == b"ok"
        for options in (HTTPOptions(), HTTPOptions(ca_file=other.file)):
            error = await failure_of(server.url, options)
            assert error.code is Code.PROVIDER_UNREACHABLE
            assert error.explanation.startswith("the certificate is not trusted: ")
        monkeypatch.setenv("SSL_CERT_FILE", str(ours.file))
        assert await body_of(server.url, HTTPOptions()) == b"ok"


async def test_a_client_certificate_is_shown_to_the_own_provider(op: OP, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server_file, client_file = authority.issue("server"), authority.issue("client")
    with_certificate = HTTPOptions(ca_file=authority.file, client_certificate_file=client_file)
    async with listening_with_tls(answers, server_file, clients_of=authority.file) as server:
        assert await body_of(server.url, with_certificate) == b"ok"
        error = await failure_of(server.url, HTTPOptions(ca_file=authority.file))
        assert error.code is Code.PROVIDER_UNREACHABLE
    own = replace(op.provider(), options=with_certificate)
    for issuer in (own.issuer, TrustedIssuer("https://other.test")):
        beside = own.beside(issuer, own.registration)
        assert beside.options.shows_certificate is (issuer == own.issuer)


async def test_the_proxy_of_the_options_is_used_and_that_of_the_host_ignored_on_demand(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with listening(answers) as proxy, listening(answers) as server:
        await body_of("http://op.test/keys", HTTPOptions(proxy=proxy.url))
        assert proxy.requests[0].startswith("GET http://op.test/keys HTTP/1.1")
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        await body_of(server.url, HTTPOptions(trust_env=False))
        assert (proxy.connections, server.connections) == (1, 1)
        await body_of("http://op.test/keys", HTTPOptions())
        assert (proxy.connections, server.connections) == (2, 1)


KEY = "-----BEGIN PRIVATE KEY-----\nMIIEvgIBADANBgkqhkiG9w0B\n"


@pytest.mark.parametrize("name", ["ca_file", "client_certificate_file"])
@pytest.mark.parametrize("content", [None, "no PEM", "-----BEGIN CERTIFICATE-----\nAAAA\n", KEY])
def test_a_file_that_cannot_be_used_is_a_fault_of_the_configuration(
    tmp_path: Path, name: str, content: str | None
) -> None:
    """The file's name is not told: it may be the key itself by mistake."""
    file = KEY if content == KEY else str(tmp_path / "file.pem")
    if content not in (None, KEY):
        Path(file).write_text(str(content))
    options = HTTPOptions(**{name: file})  # type: ignore[arg-type]  # both take a file
    with pytest.raises(ConfigurationError) as caught:
        Network().prepare(options)
    assert caught.value.code is Code.CONFIGURATION_KEY_UNUSABLE
    assert file not in caught.value.message


@pytest.mark.parametrize("proxy", ["", "proxy:3128", "ftp://proxy"])
def test_a_proxy_that_is_none_is_a_fault_of_the_configuration(proxy: str) -> None:
    with refused(Code.CONFIGURATION_INVALID, ConfigurationError):
        HTTPOptions(proxy=proxy)


async def test_a_proxy_of_the_host_that_is_none_is_an_error_of_the_provider(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "ftp://proxy")
    error = await failure_of("http://op.test/keys", HTTPOptions())
    assert error.explanation.startswith("the proxy cannot be used: ")


def answer(
    body: bytes = b'{"a": 1}', *, media_type: str = "application/json", status: int = 200
) -> OPResponse:
    return OPResponse("https://op.test/token", status, media_type, body)


@pytest.mark.parametrize("media_type", ["application/jwk-set+json", "text/plain", ""])
def test_json_is_read_under_any_media_type_and_after_a_byte_order_mark(media_type: str) -> None:
    assert answer(media_type=media_type).document() == {"a": 1}
    assert answer(b'\xef\xbb\xbf{"a": 1}', media_type=media_type).document() == {"a": 1}


@pytest.mark.parametrize("media_type", ["", "text/html", "text/json", "a/b", "application/jsonp"])
def test_tokens_have_a_media_type_of_json(media_type: str) -> None:
    with refused(Code.PROVIDER_ANSWER_MALFORMED, ProviderError):
        answer(media_type=media_type).json_body()


@pytest.mark.parametrize("body", [b"", b'{"expires_in": NaN}'])
def test_a_body_that_is_not_json_is_refused_without_quoting_it(body: bytes) -> None:
    with pytest.raises(ProviderError) as caught:
        answer(body).document()
    assert caught.value.code == Code.PROVIDER_ANSWER_MALFORMED
    assert str(body)[2:10] not in str(caught.value) or not body


def test_an_error_answer_that_is_not_json_has_no_members() -> None:
    assert answer(b"<h1>Bad gateway</h1>", media_type="text/html").error_members() == {}


def test_a_jwt_that_is_not_ascii_is_refused() -> None:
    with refused(Code.PROVIDER_ANSWER_MALFORMED, ProviderError):
        answer("é".encode(), media_type="application/jwt").text()


def test_the_representation_hides_secrets() -> None:
    options = HTTPOptions(client_certificate_password="secret", proxy="http://u:secret@proxy")
    for hiding in (options, answer(b'{"access_token": "secret"}')):
        assert "secret" not in repr(hiding)


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """The result of `work`, whose seconds take no time."""
    loop = VirtualTimeLoop()
    try:
        return loop.run_until_complete(work)
    finally:
        loop.end()


def test_slow_requests_share_the_limit_of_one_call(op: OP) -> None:
    async def slow(request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(6)
        return op.respond(request)

    provider = replace(op.provider(), network=Network(httpx.MockTransport(slow)))

    async def verify() -> None:
        await provider.verify(SigningKey("new").sign({}))

    with pytest.raises(ProviderError) as caught:
        run(verify())
    assert caught.value.code == Code.PROVIDER_TIMEOUT
    assert caught.value.message == (
        "no complete response within 10 seconds (url=https://op.test/jwks,"
        " setting=provider_timeout)"
    )


def test_a_request_with_patience_has_its_own_time_within_a_call() -> None:
    async def slow(_: httpx.Request) -> httpx.Response:
        await asyncio.sleep(30)
        return httpx.Response(200)

    http = HTTPClient(Network(httpx.MockTransport(slow)), HTTPOptions())

    async def call() -> None:
        with budget(10):
            await http.request("POST", "https://op.test/token", patience=60)
            with refused(Code.PROVIDER_TIMEOUT, ProviderError):
                await http.request("POST", "https://op.test/token")

    run(call())


def test_a_slow_userinfo_response_leaves_others_their_time_for_keys_that_they_share() -> None:
    op, old, new = OP(), SigningKey("old"), SigningKey("new")
    op.publish([old])
    op.answer_text("/userinfo", new.sign({"sub": "alice"}), "application/jwt")
    seconds = {"/userinfo": 8, "/jwks": 4}

    async def slow(request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(seconds.get(request.url.path, 0))
        return op.respond(request)

    provider = replace(op.provider(), network=Network(httpx.MockTransport(slow)))

    async def login() -> VerifiedToken:
        await asyncio.sleep(9)  # the keys are being fetched for the UserInfo response
        return await provider.verify(new.sign({"sub": "bob"}))

    async def both() -> VerifiedToken:
        await provider.verify(old.sign({}))
        op.publish([old, new])
        _, verified = await asyncio.gather(provider.userinfo("at", sub="alice"), login())
        return verified

    assert run(both()).claims == {"sub": "bob"}
    assert op.asked("/jwks") == 2
