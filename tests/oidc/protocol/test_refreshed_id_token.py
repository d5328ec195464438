from dataclasses import replace

import pytest

from fastapi_oidc.clock import Instant
from fastapi_oidc.errors import Code, ProtocolViolation
from fastapi_oidc.protocol.claims import accept_signed_userinfo, accept_userinfo
from fastapi_oidc.protocol.encoding import JSON, Claims
from fastapi_oidc.protocol.id_token import (
    Authentication,
    IdToken,
    accept_refreshed_id_token,
)
from tests.oidc.protocol.examples import (
    ABSENT,
    AT,
    CLIENT_ID,
    ISSUER,
    NOW,
    ODD_VALUES,
    Changes,
    Rules,
    breaking,
    changed,
    changes,
    refused,
)
from tests.oidc.protocol.id_tokens import API
from tests.oidc.protocol.id_tokens import EXPECTED as AT_LOGIN
from tests.oidc.protocol.id_tokens import VALID as LOGIN

ORIGINAL = Authentication(
    iss=ISSUER,
    sub="248289761001",
    aud=(CLIENT_ID, API),
    azp=CLIENT_ID,
    auth_time=NOW - 60,
    nonce="nonce-1",
)
EXPECTED = replace(AT_LOGIN, nonce=None, max_age=None)
VALID = changed(LOGIN, {"nonce": ABSENT})


def accept(change: Changes, original: Authentication = ORIGINAL) -> IdToken:
    return accept_refreshed_id_token(changed(VALID, change), original, EXPECTED, AT)


def test_the_unchanged_token_is_accepted() -> None:
    assert accept({}).sub == ORIGINAL.sub


def test_a_token_that_was_valid_when_it_came_is_accepted_however_late_that_is_known() -> None:
    """Core 3.1.3.7 rule 9 is about the moment of its acceptance; the key may come much later."""
    claims, much_later = changed(VALID, {}), Instant(NOW + 7200)
    assert accept_refreshed_id_token(claims, ORIGINAL, EXPECTED, much_later, received=AT).sub
    for received in (None, much_later):
        with refused(Code.ID_TOKEN_EXPIRED, ProtocolViolation):
            accept_refreshed_id_token(claims, ORIGINAL, EXPECTED, much_later, received=received)


@pytest.mark.parametrize(
    "change",
    [
        {"nonce": "nonce-1"},
        {"auth_time": ABSENT},
        {"aud": [API, CLIENT_ID]},
        {"sid": ABSENT},
        {"at_hash": ABSENT},
    ],
)
def test_what_a_provider_may_do_differently(change: Changes) -> None:
    accept(change)


BROKEN: Rules = {
    Code.ID_TOKEN_ISSUER: changes("iss", "https://op.test/1"),
    Code.ID_TOKEN_SUBJECT: changes("sub", "another"),
    Code.ID_TOKEN_AUDIENCE: changes("aud", CLIENT_ID, [CLIENT_ID, API, "https://other.test"]),
    Code.ID_TOKEN_AUTHORIZED_PARTY: changes("azp", ABSENT, "client-2"),
    Code.ID_TOKEN_AUTH_TIME: changes("auth_time", NOW - 59),
    Code.ID_TOKEN_NONCE: changes("nonce", "nonce-2"),
    Code.ID_TOKEN_ACCESS_TOKEN_HASH: changes("at_hash", "77QmUPtjPfzWtF2AnpK9RQ"),
}


@pytest.mark.parametrize(("change", "code"), breaking(BROKEN))
def test_one_wrong_claim_is_named(change: Changes, code: Code) -> None:
    with refused(code, ProtocolViolation):
        accept(change)


@pytest.mark.parametrize(
    ("original", "code"),
    [
        (replace(ORIGINAL, iss="https://old.test/"), Code.ID_TOKEN_ISSUER),
        (replace(ORIGINAL, aud=(CLIENT_ID,)), Code.ID_TOKEN_AUDIENCE),
        (replace(ORIGINAL, azp=None), Code.ID_TOKEN_AUTHORIZED_PARTY),
    ],
)
def test_the_token_of_the_login_decides(original: Authentication, code: Code) -> None:
    with refused(code, ProtocolViolation):
        accept({}, original)


def test_a_login_without_auth_time_has_none_to_preserve() -> None:
    accept({}, replace(ORIGINAL, auth_time=None))


def test_a_nonce_cannot_appear_with_the_refresh() -> None:
    with refused(Code.ID_TOKEN_NONCE, ProtocolViolation):
        accept({"nonce": "nonce-1"}, replace(ORIGINAL, nonce=None))


SUB = "248289761001"
PLAIN: dict[str, JSON] = {"sub": SUB, "name": "Alice", "address": {"country": "DE"}}
SIGNED: dict[str, JSON] = {**PLAIN, "iss": ISSUER, "aud": CLIENT_ID}


def accept_signed(claims: Claims) -> Claims:
    return accept_signed_userinfo(claims, sub=SUB, issuer=ISSUER, client_id=CLIENT_ID, at=AT)


def test_the_unchanged_response_is_accepted() -> None:
    assert accept_userinfo(PLAIN, sub=SUB) == PLAIN
    assert accept_signed(SIGNED) == SIGNED


@pytest.mark.parametrize("sub", [ABSENT, SUB + "invalid", int(SUB), [SUB], *ODD_VALUES], ids=repr)
def test_the_response_is_about_the_user_of_the_id_token(sub: JSON) -> None:
    with refused(Code.USERINFO_SUBJECT, ProtocolViolation):
        accept_userinfo(changed(PLAIN, {"sub": sub}), sub=SUB)
    with refused(Code.USERINFO_SUBJECT, ProtocolViolation):
        accept_signed(changed(SIGNED, {"sub": sub}))


@pytest.mark.parametrize("document", [None, [], [PLAIN], "text", 1])
def test_an_object_is_asked_for(document: object) -> None:
    with refused(Code.USERINFO_MALFORMED, ProtocolViolation):
        accept_userinfo(document, sub=SUB)


BROKEN_USERINFO: Rules = {
    Code.USERINFO_ISSUER: changes("iss", "https://op.test", [ISSUER]),
    Code.USERINFO_AUDIENCE: changes("aud", "client-2", ["client-2"], {CLIENT_ID: 1}),
    Code.USERINFO_EXPIRED: [*changes("exp", NOW - 30, "soon"), *changes("nbf", NOW + 31, "soon")],
}


@pytest.mark.parametrize(("change", "code"), breaking(BROKEN_USERINFO))
def test_a_signed_response_is_of_this_provider_for_this_client_and_now(
    change: Changes, code: Code
) -> None:
    with refused(code, ProtocolViolation):
        accept_signed(changed(SIGNED, change))


@pytest.mark.parametrize(
    "change",
    [
        *({name: value} for name in ("iss", "aud", "exp", "nbf") for value in (ABSENT, None)),
        {"exp": NOW - 29, "nbf": NOW + 30},
        {"aud": ["client-2", CLIENT_ID]},
    ],
)
def test_what_a_signed_response_may_have_or_leave_out(change: Changes) -> None:
    assert accept_signed(changed(SIGNED, change))
