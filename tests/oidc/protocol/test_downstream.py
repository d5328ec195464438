"""Token requests for other APIs, one rule at a time."""

import json
from typing import Any

import pytest

from fastapi_oidc.errors import Code, ConfigurationError, ProviderError, SessionError
from fastapi_oidc.protocol.access_token import refuses
from fastapi_oidc.protocol.downstream import (
    DownstreamAPI,
    IssuedToken,
    Needed,
    Target,
    client_credentials_grant,
    exchange_grant,
    require_access_token,
    selected,
)
from fastapi_oidc.protocol.token import TokenResponse
from tests.oidc.protocol.examples import refused

API = DownstreamAPI(
    grant="token_exchange", audience="calendar", resource="https://c.test/", scope="read write"
)
ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"
NOW = 1_800_000_000


def test_an_exchange_names_token_target_and_types() -> None:
    """RFC 8693 2.1."""
    assert exchange_grant(API, "own") == {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "subject_token": "own",
        "subject_token_type": ACCESS_TOKEN,
        "requested_token_type": ACCESS_TOKEN,
        "audience": "calendar",
        "resource": "https://c.test/",
        "scope": "read write",
    }


def test_on_behalf_of_has_the_session_s_token_as_assertion() -> None:
    assert exchange_grant(DownstreamAPI(grant="on_behalf_of", scope=["a/b"]), "own") == {
        "grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
        "assertion": "own",
        "requested_token_use": "on_behalf_of",
        "scope": "a/b",
    }


def test_client_credentials_have_no_subject() -> None:
    """RFC 6749 4.4.2."""
    assert client_credentials_grant(Target()) == {"grant_type": "client_credentials"}
    assert client_credentials_grant(Target(scope=["a", "b"]))["scope"] == "a b"


@pytest.mark.parametrize("resource", ["https://c.test/#x", "c.test", "", "https://c .test", "ä:b"])
def test_a_resource_is_an_absolute_uri_without_fragment(resource: str) -> None:
    """RFC 8707 2."""
    with pytest.raises(ConfigurationError, match="RFC 8707"):
        Target(resource=resource)


@pytest.mark.parametrize("resource", ["https://c.test", "api://1234/x", "urn:c"])
def test_every_absolute_uri_is_a_resource(resource: str) -> None:
    assert Target(resource=resource).parameters() == {"resource": resource}


@pytest.mark.parametrize("options", [{"grant": "token", "scope": "a"}, {"grant": "on_behalf_of"}])
def test_an_api_has_a_known_grant_and_a_target(options: dict[str, Any]) -> None:
    with refused(Code.CONFIGURATION_INVALID, ConfigurationError):
        DownstreamAPI(**options)


@pytest.mark.parametrize(
    ("target", "is_found"),
    [
        (Target(audience="calendar"), True),
        (Target(scope=["write", "read"]), True),
        (Target(scope="read"), False),
        (Target(resource="https://c.test"), False),
        (Target(audience="calendar", scope="other"), False),
    ],
)
def test_an_api_is_selected_by_what_it_has(target: Target, is_found: bool) -> None:
    other = DownstreamAPI(grant="token_exchange", audience="mail")
    if is_found:
        assert selected([other, API], target) is API
        return
    with pytest.raises(ConfigurationError, match=r"none of .* has .*; known are .*mail"):
        selected([other, API], target)


def test_a_key_names_all_that_a_token_depends_on() -> None:
    others = [
        DownstreamAPI(grant="token_exchange", audience="x", resource=API.resource, scope=API.scope),
        DownstreamAPI(grant="token_exchange", audience="calendar", scope=API.scope),
        DownstreamAPI(grant="token_exchange", audience="calendar", resource=API.resource),
    ]
    assert len({api.key(api.grant) for api in [API, *others]} | {API.key("on_behalf_of")}) == 5
    again = DownstreamAPI(
        grant="token_exchange", audience="calendar", resource=API.resource, scope="write read"
    )
    assert again.key(again.grant) == API.key(API.grant)


def response(**members: object) -> TokenResponse:
    answer = {"access_token": "a", "token_type": "Bearer", **members}
    return TokenResponse.read(json.dumps(answer).encode())


def test_another_type_of_token_is_refused() -> None:
    """RFC 8693 2.2.1."""
    for issued in (ACCESS_TOKEN, None):
        require_access_token(response(issued_token_type=issued))
    with refused(Code.TOKEN_TYPE, ProviderError):
        require_access_token(response(issued_token_type=ACCESS_TOKEN.replace("access", "id")))


def token(**changes: Any) -> IssuedToken:
    members = {"value": "a", "expires_at": NOW + 300, "scope": ("x",), "token_type": "Bearer"}
    return IssuedToken(**{**members, "issued_at": NOW, **changes})


def test_a_token_comes_back_as_it_was_written() -> None:
    assert IssuedToken.decode(token().encode()) == token()
    assert IssuedToken.decode(token(dpop_key="k").encode()) == token(dpop_key="k")
    with refused(Code.SESSION_STORE_UNAVAILABLE, SessionError):
        IssuedToken.decode(b'{"value": "of another release"}')


@pytest.mark.parametrize(
    ("seconds", "age", "is_met"),
    [
        *((60, 239, True), (60, 240, False), (0, 299, True), (0, 300, False), (299, 0, True)),
        # It never lives so long: used for half of its life.
        *((300, 149, True), (300, 150, False), (99_999, 149, True)),
    ],
)
def test_a_token_is_met_by_its_time(seconds: int, age: int, is_met: bool) -> None:
    assert Needed(seconds).is_met_by(token(), NOW + age) == is_met


def test_a_refused_token_is_good_for_nobody() -> None:
    refused = Needed(0, refused="a")
    assert not refused.is_met_by(token(), NOW)
    assert not refused.is_served_by(token(), NOW)
    assert refused.is_met_by(token(value="b"), NOW)


def test_a_token_without_end_is_good_until_it_is_refused() -> None:
    assert Needed().is_met_by(token(expires_at=None), NOW * 2)
    assert Needed().is_served_by(token(expires_at=None), NOW * 2)
    assert Needed().is_served_by(token(), NOW + 299)
    assert not Needed().is_served_by(token(), NOW + 300)


def test_no_secret_is_in_a_representation() -> None:
    secret = token(value="secret-1", dpop_key="secret-2")
    assert "secret" not in repr(secret)
    assert "secret" not in repr(Needed(refused="secret"))


@pytest.mark.parametrize(
    "challenge",
    [
        *('Bearer error="invalid_token"', "bearer error=invalid_token"),
        'Bearer realm="x, y", error="invalid_token", error_description="it, is over"',
        'Basic realm="a", Bearer error = "invalid_token"',
        'DPoP algs="ES256", error="invalid_token"',
    ],
)
def test_a_refusal_of_the_token_is_found(challenge: str) -> None:
    """RFC 6750 3.1, RFC 9449 7.1."""
    assert refuses([challenge], "invalid_token")
    assert refuses(['Basic realm="x"', challenge], "invalid_token")


@pytest.mark.parametrize(
    "challenge",
    [
        *("", "Bearer", 'Bearer error="insufficient_scope"', 'Bearer realm="error=invalid_token"'),
        'Basic realm="Bearer error=\\"invalid_token\\""',
        'Bearer realm="x", Basic error="invalid_token"',
        'Bearer error_description="invalid_token"',
    ],
)
def test_another_challenge_is_no_refusal_of_the_token(challenge: str) -> None:
    assert not refuses([challenge], "invalid_token")
