"""The issuer of a tenant behind a shared one."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from fastapi_oidc.errors import Code, ConfigurationError, ProtocolViolation, ProviderError
from fastapi_oidc.protocol.claims import TrustedIssuer, accept_signed_userinfo
from fastapi_oidc.protocol.encoding import JSON
from fastapi_oidc.protocol.id_token import (
    Authentication,
    Expected,
    accept_id_token,
    accept_logout_token,
    accept_refreshed_id_token,
)
from fastapi_oidc.protocol.metadata import ProviderMetadata
from tests.oidc.protocol.examples import (
    ABSENT,
    AT,
    CLIENT_ID,
    ISSUER,
    TRUSTED,
    Changes,
    changed,
    refused,
)
from tests.oidc.protocol.id_tokens import API, EXPECTED, VALID
from tests.oidc.protocol.test_logout_messages import VALID as LOGOUT
from tests.oidc.protocol.test_metadata import DOCUMENT

SHARED = "https://login.test/organizations/v2.0"
OURS, THEIRS = "11111111-aaaa-4444-8888-000000000000", "22222222-bbbb-4444-8888-000000000000"
OUR_ISSUER = f"https://login.test/{OURS}/v2.0"
CLAIMS: dict[str, JSON] = {"iss": OUR_ISSUER, "tid": OURS}


def accept(change: Changes, *names: str) -> str:
    issuer = TrustedIssuer.of(SHARED, names or [OURS])
    return issuer.require(changed(CLAIMS, change), Code.ID_TOKEN_ISSUER)


def test_the_issuer_of_an_allowed_tenant_is_the_one_in_its_token() -> None:
    assert accept({}) == accept({}, THEIRS, OURS) == accept({}, "*") == OUR_ISSUER


@pytest.mark.parametrize(
    "change",
    [
        {"iss": SHARED},
        {"iss": "https://login.test/{tenantid}/v2.0"},
        {"iss": f"https://login.test/{THEIRS}/v2.0"},
        {"iss": f"https://login.test/{OURS}/v2.0/"},
        {"iss": f"https://evil.test/{OURS}/v2.0"},
        {"iss": ABSENT},
        {"tid": THEIRS},
        {"tid": ABSENT},
        {"tid": None},
        {"tid": OURS.upper()},
        {"tid": OURS + "\n"},
        {"tid": [OURS]},
        {"tid": "common", "iss": "https://login.test/common/v2.0"},
        {"tid": "../x", "iss": "https://login.test/../x/v2.0"},
    ],
)
@pytest.mark.parametrize("names", [[OURS], ["*"]])
def test_issuer_and_tenant_must_be_the_same_one(change: Changes, names: list[str]) -> None:
    with refused(Code.ID_TOKEN_ISSUER, ProtocolViolation):
        accept(change, *names)


def test_a_tenant_that_is_not_allowed_is_refused_although_its_issuer_is_its_own() -> None:
    theirs: Changes = {"iss": f"https://login.test/{THEIRS}/v2.0", "tid": THEIRS}
    assert accept(theirs, "*")
    with refused(Code.ID_TOKEN_ISSUER, ProtocolViolation):
        accept(theirs, OURS)


@pytest.mark.parametrize(
    ("issuer", "names"),
    [
        ("https://login.test/v2.0", ["*"]),
        ("https://login.test/commons/v2.0", ["*"]),
        ("https://login.test/common/organizations", ["*"]),
        (SHARED, ["*", OURS]),
        (SHARED, ["contoso.com"]),
        (SHARED, [OURS.upper()]),
    ],
)
def test_impossible_tenants_are_a_fault_of_the_configuration(issuer: str, names: list[str]) -> None:
    with refused(Code.CONFIGURATION_INVALID, ConfigurationError):
        TrustedIssuer.of(issuer, names)


TEMPLATE = "https://login.test/{tenantid}/v2.0"
OF_OURS = TrustedIssuer.of(SHARED, [OURS])
AUDIENCE = (CLIENT_ID, API)
OF_TENANTS = replace(EXPECTED, issuer=OF_OURS)


def accept_at_login(claims: dict[str, JSON]) -> str:
    return accept_id_token(changed(VALID, claims), OF_TENANTS, AT).iss


def accept_at_refresh(claims: dict[str, JSON]) -> str:
    original = Authentication(OUR_ISSUER, str(VALID["sub"]), AUDIENCE, CLIENT_ID, None, "nonce-1")
    return accept_refreshed_id_token(changed(VALID, claims), original, OF_TENANTS, AT).iss


def accept_at_logout(claims: dict[str, JSON]) -> str:
    expected = Expected(OF_OURS, CLIENT_ID)
    return accept_logout_token(None, changed(LOGOUT, claims), expected, AT).iss


def accept_user_info(claims: dict[str, JSON]) -> str:
    said = {"sub": "alice", **claims}
    accept_signed_userinfo(said, sub="alice", issuer=OF_OURS, client_id=CLIENT_ID, at=AT)
    return OUR_ISSUER


@pytest.mark.parametrize(
    ("accept_message", "code"),
    [
        (accept_at_login, Code.ID_TOKEN_ISSUER),
        (accept_at_refresh, Code.ID_TOKEN_ISSUER),
        (accept_at_logout, Code.LOGOUT_TOKEN_ISSUER),
        (accept_user_info, Code.USERINFO_ISSUER),
    ],
)
def test_every_message_is_held_against_the_issuer_of_its_tenant(
    accept_message: Callable[[dict[str, JSON]], str], code: Code
) -> None:
    assert accept_message(CLAIMS) == OUR_ISSUER
    with refused(code, ProtocolViolation):
        accept_message({**CLAIMS, "iss": SHARED})


def test_a_refresh_is_of_the_tenant_of_the_login() -> None:
    everybody = replace(OF_TENANTS, issuer=TrustedIssuer.of(SHARED, ["*"]))
    theirs = f"https://login.test/{THEIRS}/v2.0"
    original = Authentication(theirs, str(VALID["sub"]), AUDIENCE, CLIENT_ID, None, "nonce-1")
    with refused(Code.ID_TOKEN_ISSUER, ProtocolViolation):
        accept_refreshed_id_token(changed(VALID, CLAIMS), original, everybody, AT)


def of_tenants(issuer: str, trusted: TrustedIssuer = OF_OURS) -> ProviderMetadata:
    return ProviderMetadata.parse(changed(DOCUMENT, {"issuer": issuer}), issuer=trusted)


def test_a_templated_issuer_is_accepted_when_tenants_were_asked_for() -> None:
    assert of_tenants(TEMPLATE).issuer == SHARED


@pytest.mark.parametrize("issuer", [SHARED, TEMPLATE + "/", TEMPLATE.replace("login", "evil")])
def test_a_shared_endpoint_has_exactly_the_template(issuer: str) -> None:
    with refused(Code.PROVIDER_ISSUER_MISMATCH, ProviderError):
        of_tenants(issuer)


def test_nobody_else_may_have_a_templated_issuer() -> None:
    with pytest.raises(ProviderError, match="allowed_tenants") as caught:
        of_tenants(TEMPLATE, TrustedIssuer(SHARED))
    assert caught.value.code is Code.PROVIDER_ISSUER_MISMATCH


@pytest.mark.parametrize(("trusted", "expected"), [(TRUSTED, ISSUER), (OF_OURS, OUR_ISSUER)])
def test_of_another_issuer_both_are_named(trusted: TrustedIssuer, expected: str) -> None:
    with pytest.raises(ProtocolViolation) as caught:
        trusted.require({**CLAIMS, "iss": "https://other.test"}, Code.ID_TOKEN_ISSUER)
    assert caught.value.explanation == (
        f"iss is 'https://other.test', the configured issuer '{expected}'"
    )
