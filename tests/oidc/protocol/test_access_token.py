"""The rules of an access token (RFC 9068), broken one at a time."""

from dataclasses import replace
from typing import Any

import pytest

from fastapi_oidc import Code, ConfigurationError, ProtocolViolation
from fastapi_oidc.protocol.access_token import (
    AccessClaims,
    Confirmation,
    ExpectedAccessToken,
    StepUp,
    accept_access_token,
    accept_introspection,
    of_class,
    recent,
)
from fastapi_oidc.protocol.claims import TrustedIssuer
from fastapi_oidc.protocol.encoding import JSON
from tests.oidc.protocol.examples import (
    ABSENT,
    AT,
    ISSUER,
    NOW,
    TRUSTED,
    Changes,
    Rules,
    breaking,
    changed,
    changes,
    refused,
)

API = "https://api.example.com"
TENANT, OTHER_TENANT = (f"{digit * 8}-1111-1111-1111-111111111111" for digit in "12")
VALID: dict[str, JSON] = {
    "iss": ISSUER,
    "sub": "248289761001",
    "aud": API,
    "client_id": "program",
    "iat": NOW,
    "exp": NOW + 300,
    "jti": "dbe39bf3a3ba4238a513f51d6e1691c4",
    "scope": "machines:read machines:write",
    "roles": ["operator"],
    "ignored_claim": "ignored",
}
EXPECTED = ExpectedAccessToken(issuer=TRUSTED, audience=API)
PLAIN = replace(EXPECTED, accepts_plain_jwt=True)
ACTIVE: dict[str, JSON] = {**VALID, "active": True, "token_type": "Bearer"}


def accept(
    change: Changes, *, typ: str | None = "at+jwt", expected: ExpectedAccessToken = EXPECTED
) -> AccessClaims:
    return accept_access_token(typ, changed(VALID, change), expected, AT)


def introspected(change: Changes, *, expected: ExpectedAccessToken = EXPECTED) -> AccessClaims:
    return accept_introspection(changed(ACTIVE, change), expected, AT)


def test_the_unchanged_token_is_accepted() -> None:
    assert accept({}) == AccessClaims(
        iss=ISSUER,
        sub="248289761001",
        aud=(API,),
        client_id="program",
        scope=("machines:read", "machines:write"),
        roles=("operator",),
        expires_at=NOW + 300,
        confirmation=Confirmation(),
        claims=VALID,
    )


def test_what_the_provider_says_of_an_opaque_token_becomes_the_same() -> None:
    assert replace(introspected({}), claims=VALID) == accept({})


@pytest.mark.parametrize(
    "change",
    [
        *({"aud": [API, "https://other.example.com"]}, {"scope": ABSENT}, {"scope": ""}),
        *({"roles": ABSENT}, {"roles": "operator"}, {"jti": ABSENT}, {"cnf": None}),
        *({"iat": NOW + 30}, {"nbf": NOW + 30}, {"exp": NOW - 29}),
    ],
)
def test_what_a_provider_may_do_differently(change: Changes) -> None:
    accept(change)
    introspected(change)


OTHER = "https://other.example.com"
BROKEN: Rules = {
    Code.ACCESS_TOKEN_ISSUER: changes("iss", OTHER, ISSUER + "/"),
    Code.ACCESS_TOKEN_SUBJECT: changes("sub", "", 248289761001, "x" * 256),
    Code.ACCESS_TOKEN_AUDIENCE: changes("aud", ABSENT, OTHER, API + "/", [API, 1], []),
    Code.ACCESS_TOKEN_CLIENT: changes("client_id", ABSENT, "", ["program"]),
    Code.ACCESS_TOKEN_EXPIRY: changes("exp", ABSENT, "never"),
    Code.ACCESS_TOKEN_EXPIRED: changes("exp", NOW - 30),
    Code.ACCESS_TOKEN_ISSUED_AT: [*changes("iat", NOW + 31, "no"), *changes("nbf", NOW + 31, True)],
    Code.ACCESS_TOKEN_SCOPE_MALFORMED: [
        *changes("scope", 1, ["machines:read", 1]),
        *changes("roles", {"operator": True}),
    ],
    Code.ACCESS_TOKEN_BINDING: [
        *changes("cnf", {}, "key", {"kid": "key"}, {"jkt": "key", "jwe": "key"}),
        *changes("cnf", {"jkt": None}, {"jkt": ""}, {"jkt": 1}),
        *changes("cnf", {"x5t#S256": None}, {"x5t#S256": []}),
    ],
}


@pytest.mark.parametrize(("change", "code"), breaking(BROKEN))
def test_each_rule_refuses_a_jwt_and_an_introspection_response(change: Changes, code: Code) -> None:
    with refused(code, ProtocolViolation):
        accept(change)
    with refused(code, ProtocolViolation):
        introspected(change)


def test_a_client_that_acts_for_itself_is_the_subject() -> None:
    assert introspected({"sub": ABSENT}).sub == "program"
    with refused(Code.ACCESS_TOKEN_CLIENT, ProtocolViolation):
        introspected({"sub": ABSENT, "client_id": ABSENT})
    with refused(Code.ACCESS_TOKEN_SUBJECT, ProtocolViolation):
        accept({"sub": ABSENT})


def test_a_jwt_says_who_issued_it_and_when() -> None:
    with refused(Code.ACCESS_TOKEN_ISSUER, ProtocolViolation):
        accept({"iss": ABSENT})
    with refused(Code.ACCESS_TOKEN_ISSUED_AT, ProtocolViolation):
        accept({"iat": ABSENT})
    # The provider itself was asked (RFC 7662 2.2).
    introspected({"iss": ABSENT, "iat": ABSENT})


@pytest.mark.parametrize("typ", [None, "JWT", "logout+jwt", "dpop+jwt", "at+jwt2", ""])
@pytest.mark.parametrize("change", [{}, {"client_id": API}])
def test_any_other_type_is_another_kind_of_token(typ: str | None, change: Changes) -> None:
    with refused(Code.JWS_TYPE, ProtocolViolation):
        accept(change, typ=typ)


def test_a_plain_jwt_is_accepted_where_the_option_says_so() -> None:
    for typ in ("AT+JWT", "application/at+jwt"):
        accept({}, typ=typ)
    for plain in (None, "JWT", "jwt"):
        accept({}, typ=plain, expected=PLAIN)
    with refused(Code.JWS_TYPE, ProtocolViolation):
        accept({}, typ="logout+jwt", expected=PLAIN)


OF_ID_TOKENS = ("nonce", "at_hash", "c_hash")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        *(({name: "77QmUPtjPfzWtF2AnpK9RQ"}, "an ID token") for name in OF_ID_TOKENS),
        ({"events": {}}, "a security event token"),
        ({"client_id": ABSENT, "azp": API}, "aud has the client"),
        *(({name: API}, "aud has the client") for name in ("client_id", "azp")),
        ({"aud": [API, "program"]}, "aud has the client"),
        ({"client_id": ABSENT, "azp": "app", "aud": [API, "app"]}, "aud has the client"),
    ],
)
def test_an_id_token_never_passes_for_a_plain_access_token(change: Changes, said: str) -> None:
    with pytest.raises(ProtocolViolation, match=rf"^access_token\.kind: .*{said}"):
        accept(change, typ="JWT", expected=PLAIN)
    # The type `at+jwt` says what it is.
    accept({"client_id": "program", **change} if change.get("azp") else change)


def test_an_id_token_without_azp_names_no_client() -> None:
    with refused(Code.ACCESS_TOKEN_CLIENT, ProtocolViolation):
        accept({"client_id": ABSENT}, typ="JWT", expected=PLAIN)


def test_the_client_may_be_azp() -> None:
    assert accept({"client_id": ABSENT, "azp": "keycloak-client"}).client_id == "keycloak-client"


def test_each_provider_has_claims_of_its_own() -> None:
    entra = replace(EXPECTED, client_claim="appid", scope_claim="scp", roles_claim=("groups",))
    token = accept({"appid": "entra", "scp": "Machines.Read", "groups": ["g1"]}, expected=entra)
    assert (token.client_id, token.scope) == ("entra", ("Machines.Read",))
    assert token.roles == ("g1",)
    with refused(Code.ACCESS_TOKEN_CLIENT, ProtocolViolation):
        accept({}, expected=entra)
    with refused(Code.ACCESS_TOKEN_KIND, ProtocolViolation):
        accept({"appid": API}, typ="JWT", expected=replace(entra, accepts_plain_jwt=True))


def test_a_scope_is_split_at_spaces_only() -> None:
    """RFC 6749 3.3."""
    scope = "a\u00a0b \u2003\t  c\n"
    assert accept({"scope": scope}).scope == ("a\u00a0b", "\u2003\t", "c\n")


def test_scopes_and_roles_lie_where_the_provider_puts_them() -> None:
    okta = replace(EXPECTED, scope_claim="scp", roles_claim=("https://example.com/roles",))
    token = accept({"scp": ["a", "b"], "https://example.com/roles": ["admin"]}, expected=okta)
    assert (token.scope, token.roles) == (("a", "b"), ("admin",))
    keycloak = replace(EXPECTED, roles_claim=("realm_access", "roles"))
    assert accept({"realm_access": {"roles": ["x"]}}, expected=keycloak).roles == ("x",)
    others: list[JSON] = [{}, "admin", None]
    for realm in others:
        assert accept({"realm_access": realm}, expected=keycloak).roles == ()


def test_a_shared_issuer_has_the_tokens_of_the_allowed_tenants() -> None:
    shared = "https://login.example.com/common/v2.0"
    entra = replace(EXPECTED, issuer=TrustedIssuer.of(shared, [TENANT]))
    iss = f"https://login.example.com/{TENANT}/v2.0"
    issuer: Changes = {"iss": iss, "tid": TENANT}
    for accepting in (accept, introspected):
        assert accepting(issuer, expected=entra).iss == iss
    for wrong in ({"tid": OTHER_TENANT}, {"tid": ABSENT}, {"iss": shared}):
        with refused(Code.ACCESS_TOKEN_ISSUER, ProtocolViolation):
            accept({**issuer, **wrong}, expected=entra)
        with refused(Code.ACCESS_TOKEN_ISSUER, ProtocolViolation):
            introspected({**issuer, **wrong}, expected=entra)


def test_bindings_are_read() -> None:
    both: JSON = {"jkt": "key", "x5t#S256": "certificate"}
    assert accept({"cnf": both}).confirmation == Confirmation("key", "certificate")


@pytest.mark.parametrize("active", [False, None, ABSENT, "true", 1, {}])
def test_only_true_is_active(active: JSON) -> None:
    with refused(Code.ACCESS_TOKEN_INACTIVE, ProtocolViolation):
        introspected({"active": active})


def test_neither_form_shows_the_claims_in_its_repr() -> None:
    assert "ignored_claim" not in repr(accept({}))


ENOUGH: dict[StepUp, list[tuple[int | None, str | None]]] = {
    recent(300): [(NOW - 300, None), (NOW - 329, None), (NOW + 30, None)],
    recent(0): [(NOW, None)],
    of_class(("mfa", "hwk")): [(None, "hwk")],
    StepUp(300, ("mfa",)): [(NOW, "mfa")],
}
TOO_LITTLE: dict[StepUp, list[tuple[int | None, str | None]]] = {
    recent(300): [(NOW - 330, None), (None, None), (NOW + 31, None)],
    recent(0): [(NOW - 30, None)],
    of_class(("mfa", "hwk")): [(None, "pwd"), (None, "mfa hwk"), (None, None)],
    StepUp(300, ("mfa",)): [(NOW, "pwd"), (NOW - 330, "mfa")],
}


@pytest.mark.parametrize("step_up", ENOUGH, ids=str)
def test_an_authentication_is_enough_or_not(step_up: StepUp) -> None:
    for auth_time, acr in ENOUGH[step_up]:
        assert step_up.is_met(auth_time, acr, AT), (auth_time, acr)
    for auth_time, acr in TOO_LITTLE[step_up]:
        assert not step_up.is_met(auth_time, acr, AT), (auth_time, acr)


@pytest.mark.parametrize(
    ("step_up", "challenge"),
    [
        (recent(5), 'Bearer error="insufficient_user_authentication", max_age="5"'),
        (of_class(("a", "b")), 'Bearer error="insufficient_user_authentication", acr_values="a b"'),
    ],
)
def test_a_challenge_names_what_is_required(step_up: StepUp, challenge: str) -> None:
    assert step_up.challenge() == challenge


@pytest.mark.parametrize("seconds", [-1, True, 1.5, "300", None])
def test_an_age_is_a_whole_number_of_seconds(seconds: Any) -> None:
    with refused(Code.CONFIGURATION_INVALID, ConfigurationError):
        recent(seconds)


@pytest.mark.parametrize("values", [(), ("",), ("a b",), ('a"',), ("a\\",), ("é",)])
def test_a_class_fits_into_a_challenge(values: tuple[str, ...]) -> None:
    with refused(Code.CONFIGURATION_INVALID, ConfigurationError):
        of_class(values)
