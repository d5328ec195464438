"""Responses of a provider, and the time that they may take."""

import asyncio
from dataclasses import replace

import httpx
import pytest

from fastapi_oidc.clock import Clock
from fastapi_oidc.errors import Code, ProviderError
from fastapi_oidc.protocol.claims import TrustedIssuer
from fastapi_oidc.protocol.client_auth import ClientAuthentication
from fastapi_oidc.provider.client_endpoints import Registration
from fastapi_oidc.provider.document import VerifiedToken
from fastapi_oidc.provider.http import HTTPClient, OPResponse, budget
from fastapi_oidc.provider.network import HTTPOptions, Network
from fastapi_oidc.provider.provider import Provider
from tests.oidc.protocol.examples import refused
from tests.oidc.provider.op import ISSUER, OP, SigningKey
from tests.oidc.virtual_time import VirtualTimeLoop


def answer(
    body: bytes = b'{"a": 1}', *, media_type: str = "application/json", status: int = 200
) -> OPResponse:
    return OPResponse("https://op.test/token", status, media_type, body)


@pytest.mark.parametrize(
    "media_type", ["application/json", "application/jwk-set+json", "application/scim+json"]
)
def test_json_media_types_are_read_also_after_a_byte_order_mark(media_type: str) -> None:
    assert answer(media_type=media_type).document() == {"a": 1}
    assert answer(b'\xef\xbb\xbf{"a": 1}', media_type=media_type).document() == {"a": 1}


@pytest.mark.parametrize(
    "media_type", ["", "text/html", "text/json", "text/plain", "application/jsonp"]
)
def test_other_media_types_are_not_json(media_type: str) -> None:
    with refused(Code.PROVIDER_ANSWER_MALFORMED, ProviderError):
        answer(media_type=media_type).document()


def test_a_published_document_may_be_plain_text() -> None:
    assert answer(media_type="text/plain").published_document() == {"a": 1}
    for other in ("text/html", ""):
        with pytest.raises(ProviderError):
            answer(media_type=other).published_document()


@pytest.mark.parametrize("body", [b"", b'{"expires_in": NaN}'])
def test_a_body_that_is_not_json_is_refused_without_quoting_it(body: bytes) -> None:
    with pytest.raises(ProviderError) as caught:
        answer(body).document()
    assert caught.value.code == Code.PROVIDER_ANSWER_MALFORMED
    assert str(body)[2:10] not in str(caught.value) or not body


def test_an_error_answer_that_is_not_json_has_no_document() -> None:
    assert answer(b"<h1>Bad gateway</h1>", media_type="text/html").document_or_none() is None


def test_a_jwt_that_is_not_ascii_and_json_that_is_not_utf_8_are_refused() -> None:
    jwt, json = answer("é".encode(), media_type="application/jwt"), answer(b"\xff")
    for read in (jwt.text, json.json_body):
        with refused(Code.PROVIDER_ANSWER_MALFORMED, ProviderError):
            read()


def test_another_status_than_expected_is_refused() -> None:
    answer(status=201).require_status(200, 201)
    with pytest.raises(ProviderError) as caught:
        answer(status=503).require_status(200, 201)
    assert caught.value.code == Code.PROVIDER_STATUS
    assert caught.value.details["status"] == 503


def test_the_representation_hides_the_body() -> None:
    assert "secret" not in repr(answer(b'{"access_token": "secret"}'))


def test_slow_requests_share_the_limit_of_one_call(op: OP) -> None:
    async def slow(request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(60)
        return op.respond(request)

    registration = Registration(
        authentication=ClientAuthentication("none", "console"), algorithms=frozenset({"EdDSA"})
    )
    network = Network(httpx.MockTransport(slow))
    provider = Provider(
        TrustedIssuer(ISSUER), registration, clock=Clock(), timeout=100, network=network
    )
    loop = VirtualTimeLoop()
    with pytest.raises(ProviderError) as caught:
        loop.run_until_complete(provider.verify(SigningKey("new").sign({})))
    loop.end()
    assert caught.value.code == Code.PROVIDER_TIMEOUT
    assert caught.value.message == (
        "no complete response within 100 seconds (url=https://op.test/jwks,"
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

    loop = VirtualTimeLoop()
    loop.run_until_complete(call())
    loop.end()


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

    loop = VirtualTimeLoop()
    assert loop.run_until_complete(both()).claims == {"sub": "bob"}
    loop.end()
    assert op.asked("/jwks") == 2
