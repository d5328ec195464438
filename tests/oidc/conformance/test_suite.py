"""The suite notices what a Relying Party does wrong; each test breaks one thing of a request."""

from __future__ import annotations

import hashlib
from base64 import b64encode

import httpx
import pytest

from tests.oidc.conformance.suite_checks import (
    ClientCheck,
    Registration,
    authorization_faults,
    bearer_faults,
    code_faults,
)
from tests.oidc.conformance.suite_fapi2 import SecurityProfileOP
from tests.oidc.conformance.suite_op import ISSUER
from tests.oidc.protocol.jose.keypairs import base64url, compact, hs

NOW = 1_800_000_000.0
VERIFIER = "v" * 43
CHALLENGE = base64url(hashlib.sha256(VERIFIER.encode()).digest())
AUTHORIZATION = {
    "client_id": "client-1",
    "response_type": "code",
    "redirect_uri": "https://rp.test/auth/callback",
    "scope": "openid email",
    "state": "s" * 43,
    "nonce": "n" * 43,
    "code_challenge": CHALLENGE,
    "code_challenge_method": "S256",
}
TOKEN = {"redirect_uri": AUTHORIZATION["redirect_uri"], "code_verifier": VERIFIER}
SECRET = "s" * 32
ASSERTION: dict[str, object] = {
    "iss": "client-1",
    "sub": "client-1",
    "aud": "https://suite.test/",
    "jti": "jti-1",
    "iat": NOW,
    "exp": NOW + 60,
}


def registration(method: str) -> Registration:
    return Registration("client-1", SECRET, "", "", "", token_endpoint_auth_method=method)


def client_faults(
    method: str, form: dict[str, str], headers: dict[str, str] | None = None
) -> list[str]:
    request = httpx.Request("POST", "https://suite.test/token", headers=headers, data=form)
    check = ClientCheck(registration(method), frozenset({"https://suite.test/"}))
    return list(check.faults(request, form, NOW))


def asserted(**changes: object) -> dict[str, str]:
    return {
        "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
        "client_assertion": compact({"alg": "HS256"}, ASSERTION | changes, hs(SECRET)),
    }


def basic(credentials: str) -> dict[str, str]:
    return {"Authorization": "Basic " + b64encode(credentials.encode()).decode()}


def test_a_right_request_has_no_faults() -> None:
    assert list(authorization_faults(AUTHORIZATION, registration_of(AUTHORIZATION))) == []
    assert list(code_faults(TOKEN, AUTHORIZATION)) == []
    assert client_faults("client_secret_basic", {}, basic(f"client-1:{SECRET}")) == []
    assert client_faults("client_secret_post", {"client_secret": SECRET}) == []
    assert client_faults("client_secret_jwt", asserted()) == []
    assert client_faults("none", {"client_id": "client-1"}) == []


@pytest.mark.parametrize(
    "change",
    [
        {"client_id": "client-2"},
        {"response_type": "id_token"},
        {"redirect_uri": "https://rp.test/auth/callback/"},
        {"scope": "email"},
        {"state": ""},
        {"nonce": "1"},
        {"code_challenge": ""},
        {"code_challenge_method": "plain"},
        {"request": "a.b.c"},
    ],
)
def test_a_wrong_authorization_request_is_noticed(change: dict[str, str]) -> None:
    assert list(authorization_faults(AUTHORIZATION | change, registration_of(AUTHORIZATION)))


@pytest.mark.parametrize(
    "change", [{"redirect_uri": "https://rp.test/"}, {"code_verifier": "w" * 43}]
)
def test_a_wrong_code_exchange_is_noticed(change: dict[str, str]) -> None:
    assert list(code_faults(TOKEN | change, AUTHORIZATION))


@pytest.mark.parametrize(
    ("method", "form", "headers"),
    [
        ("client_secret_basic", {}, {}),
        ("client_secret_basic", {}, basic("client-1:wrong")),
        ("client_secret_basic", {"client_secret": SECRET}, basic(f"client-1:{SECRET}")),
        ("client_secret_post", {"client_secret": "wrong"}, {}),
        ("client_secret_post", {"client_secret": SECRET}, basic(f"client-1:{SECRET}")),
        ("none", {"client_id": "client-2"}, {}),
        ("client_secret_jwt", asserted(iss="client-2"), {}),
        ("client_secret_jwt", asserted(aud="https://other.test/"), {}),
        ("client_secret_jwt", asserted(exp=NOW - 1), {}),
        ("client_secret_jwt", asserted(exp=NOW + 100_000), {}),
        ("client_secret_jwt", asserted() | {"client_assertion_type": "jwt"}, {}),
    ],
)
def test_wrong_client_authentication_is_noticed(
    method: str, form: dict[str, str], headers: dict[str, str]
) -> None:
    assert client_faults(method, form, headers)


def test_an_assertion_used_twice_is_noticed() -> None:
    check = ClientCheck(registration("client_secret_jwt"), frozenset({"https://suite.test/"}))
    form = asserted()
    request = httpx.Request("POST", "https://suite.test/token", data=form)
    assert list(check.faults(request, form, NOW)) == []
    assert list(check.faults(request, form, NOW))


@pytest.mark.parametrize(
    "request_",
    [
        httpx.Request("GET", "https://suite.test/userinfo"),
        httpx.Request(
            "GET",
            "https://suite.test/userinfo?access_token=a",
            headers={"Authorization": "Bearer a"},
        ),
    ],
)
def test_a_misplaced_access_token_is_noticed(request_: httpx.Request) -> None:
    assert list(bearer_faults(request_))


async def test_a_request_that_is_not_pushed_alone_is_noticed() -> None:
    """FAPI 2.0 Security Profile 5.3.2.2: the browser brings the reference and no parameters."""
    client = registration_of(AUTHORIZATION)
    op = SecurityProfileOP(client, lambda: NOW)
    op.pushed["urn:1"] = AUTHORIZATION
    query = {"client_id": client.client_id, "request_uri": "urn:1", "scope": "openid"}
    await op.answer(httpx.Request("GET", f"{ISSUER}authorize", params=query))
    assert op.faults == ["the browser brings more than client_id and request_uri"]


def registration_of(authorization: dict[str, str]) -> Registration:
    return Registration("client-1", SECRET, authorization["redirect_uri"], "", "")
