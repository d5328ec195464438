"""The issuer of a tenant, for which a shared one stands."""

from __future__ import annotations

import pytest

from fastapi_oidc.errors import Code, ConfigurationError, ProtocolViolation
from fastapi_oidc.protocol.claims import require_issuer
from fastapi_oidc.protocol.json import JSON
from fastapi_oidc.protocol.tenants import Tenants
from tests.oidc.protocol.examples import ABSENT, Changes, changed, refused

SHARED = "https://login.test/organizations/v2.0"
OURS, THEIRS = "11111111-aaaa-4444-8888-000000000000", "22222222-bbbb-4444-8888-000000000000"
CLAIMS: dict[str, JSON] = {"iss": f"https://login.test/{OURS}/v2.0", "tid": OURS}


def accept(change: Changes, *names: str) -> str:
    tenants = Tenants.of(SHARED, names or [OURS])
    claims = changed(CLAIMS, change)
    return require_issuer(claims, SHARED, Code.ID_TOKEN_ISSUER, tenants=tenants)


def test_a_token_of_an_allowed_tenant_counts_as_one_of_the_shared_issuer() -> None:
    assert accept({}) == accept({}, THEIRS, OURS) == accept({}, "*") == SHARED


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
def test_tenants_that_cannot_be_are_a_fault_of_the_configuration(
    issuer: str, names: list[str]
) -> None:
    with refused(Code.CONFIGURATION_INVALID, ConfigurationError):
        Tenants.of(issuer, names)
