from dataclasses import replace
from itertools import product
from urllib.parse import parse_qsl, urlsplit

import pytest

from fastapi_oidc.errors import Code, ProtocolViolation
from fastapi_oidc.protocol import id_token
from fastapi_oidc.protocol.encoding import JSON
from tests.oidc.protocol.examples import (
    ABSENT,
    AT,
    CLIENT_ID,
    ISSUER,
    NOW,
    ODD_VALUES,
    TRUSTED,
    Changes,
    Rules,
    breaking,
    changed,
    changes,
    refused,
)

VALID: dict[str, JSON] = {
    "iss": ISSUER,
    "sub": "248289761001",
    "aud": CLIENT_ID,
    "iat": NOW,
    "exp": NOW + 120,
    "jti": "bWJq",
    "sid": "op-session-1",
    "events": {id_token.LOGOUT_EVENT: {}},
    "ignored_claim": "ignored",
}
EXPECTED = id_token.Expected(TRUSTED, CLIENT_ID)


def accept(change: Changes, *, typ: str | None = None) -> id_token.LogoutToken:
    return id_token.accept_logout_token(typ, changed(VALID, change), EXPECTED, AT)


def test_the_unchanged_token_is_accepted() -> None:
    token = id_token.LogoutToken(ISSUER, NOW, "248289761001", "op-session-1")
    assert accept({}) == token


@pytest.mark.parametrize(
    "change",
    [
        *(*changes("sub", ABSENT, None), *changes("sid", ABSENT, None)),
        *({"aud": [CLIENT_ID]}, {"iat": NOW + 30}, {"exp": NOW - 29}),
        {"events": {id_token.LOGOUT_EVENT: {"any": "member"}, "urn:other": {}}},
    ],
)
def test_what_a_provider_may_do_differently(change: Changes) -> None:
    accept(change)


def test_a_session_whose_name_is_a_number_is_named_as_in_the_id_token() -> None:
    assert accept({"sid": 7}).sid == "7"


WITHOUT_EXP = replace(EXPECTED, logout_without_exp=True)


def accept_without_exp(change: Changes) -> id_token.LogoutToken:
    claims = changed(VALID, {"exp": ABSENT, **change})
    return id_token.accept_logout_token(None, claims, WITHOUT_EXP, AT)


def test_a_token_without_exp_is_accepted_for_two_minutes_where_the_option_says_so() -> None:
    assert accept_without_exp({"exp": None}).iat == NOW
    assert accept_without_exp({"iat": NOW - 149}).iat == NOW - 149
    with refused(Code.LOGOUT_TOKEN_EXPIRED, ProtocolViolation):
        accept_without_exp({"iat": NOW - 150})


@pytest.mark.parametrize(
    ("change", "code"),
    breaking(
        {
            Code.LOGOUT_TOKEN_ISSUED_AT: changes("iat", ABSENT, NOW + 31),
            Code.LOGOUT_TOKEN_ID: changes("jti", ABSENT),
            Code.LOGOUT_TOKEN_EXPIRED: changes("exp", NOW - 30),
            Code.LOGOUT_TOKEN_EXPIRY: changes("exp", "soon"),
        }
    ),
)
def test_the_option_relaxes_no_other_rule(change: Changes, code: Code) -> None:
    with refused(code, ProtocolViolation):
        accept_without_exp(change)


def test_the_refusal_of_a_token_without_exp_names_the_option() -> None:
    with pytest.raises(ProtocolViolation, match="exp is missing") as caught:
        accept({"exp": ABSENT})
    assert caught.value.details == {"setting": "logout_token_without_exp"}


@pytest.mark.parametrize("typ", [None, "JWT", "jwt", "logout+jwt", "application/logout+jwt"])
def test_the_type_may_be_absent_or_right(typ: str | None) -> None:
    accept({}, typ=typ)


@pytest.mark.parametrize("typ", ["", "at+jwt", "secevent+jwt", "client-authentication+jwt"])
def test_another_kind_of_token_is_refused(typ: str) -> None:
    with refused(Code.JWS_TYPE, ProtocolViolation):
        accept({}, typ=typ)


OTHER_EVENT = "http://schemas.openid.net/event/foobar"
BROKEN: Rules = {
    Code.LOGOUT_TOKEN_ISSUER: changes("iss", ABSENT, "https://other.test/"),
    Code.LOGOUT_TOKEN_AUDIENCE: [
        *changes("aud", ABSENT, CLIENT_ID + "INVALID", [CLIENT_ID, "https://api.test"])
    ],
    Code.LOGOUT_TOKEN_ISSUED_AT: [*changes("iat", ABSENT, NOW + 31), {"nbf": NOW + 31}],
    # Back-Channel Logout 1.0 2.4 requires it; drafts did not.
    Code.LOGOUT_TOKEN_EXPIRY: changes("exp", ABSENT),
    Code.LOGOUT_TOKEN_EXPIRED: changes("exp", NOW - 30),
    Code.LOGOUT_TOKEN_ID: changes("jti", ABSENT),
    Code.LOGOUT_TOKEN_SUBJECT: [
        *({"sub": value, "sid": value} for value in (ABSENT, None)),
        *changes("sub", "a" * 256),
        *changes("sid", ["op-session-1"]),
    ],
    Code.LOGOUT_TOKEN_EVENTS: [
        *changes(
            "events", ABSENT, [id_token.LOGOUT_EVENT], id_token.LOGOUT_EVENT, {OTHER_EVENT: {}}
        ),
        *changes("events", {id_token.LOGOUT_EVENT: True}, {id_token.LOGOUT_EVENT: None}),
    ],
    Code.LOGOUT_TOKEN_NONCE: changes("nonce", "nonce-1", None),
}


@pytest.mark.parametrize(("change", "code"), breaking(BROKEN))
def test_one_wrong_claim_is_named(change: Changes, code: Code) -> None:
    with refused(code, ProtocolViolation):
        accept(change)


RULED = ("iss", "aud", "jti", "events", "nonce", "sub", "sid", "iat", "exp")
ALLOWED: list[tuple[str, JSON]] = [("sub", None), ("sid", None), ("iat", 1.5), ("exp", 1.5)]


@pytest.mark.parametrize(
    ("name", "value"),
    [case for case in product(RULED, ODD_VALUES) if case not in ALLOWED],
    ids=repr,
)
def test_an_odd_value_is_refused_in_every_claim(name: str, value: JSON) -> None:
    with pytest.raises(ProtocolViolation):
        accept({name: value})


def test_trusted_audiences_hold_for_logout_tokens_too() -> None:
    claims = changed(VALID, {"aud": [CLIENT_ID, "https://api.test"]})
    expected = id_token.Expected(TRUSTED, CLIENT_ID, frozenset({"https://api.test"}))
    assert id_token.accept_logout_token(None, claims, expected, AT).iss == ISSUER


def test_the_form_has_one_logout_token() -> None:
    assert (
        id_token.logout_token_parameter({"logout_token": ["a.b.c"], "ignored": ["1", "2"]})
        == "a.b.c"
    )


@pytest.mark.parametrize("values", [[], [""], ["a.b.c", "a.b.c"]])
def test_any_other_number_of_logout_tokens_is_refused(values: list[str]) -> None:
    with refused(Code.LOGOUT_TOKEN_REQUEST, ProtocolViolation):
        id_token.logout_token_parameter({"logout_token": values})


def test_the_parameters_of_a_logout_follow_the_query_of_the_endpoint() -> None:
    given = {"client_id": CLIENT_ID, "post_logout_redirect_uri": "https://app.test/?a=b"}
    url = urlsplit(id_token.end_session_url("https://op.test/logout?tenant=1", **given, state=None))
    assert url.path == "/logout"
    assert parse_qsl(url.query) == [("tenant", "1"), *given.items()]
