from dataclasses import replace
from itertools import product

import pytest

from fastapi_oidc.clock import Instant
from fastapi_oidc.errors import Code, ProtocolViolation
from fastapi_oidc.protocol.claims import accept_signed_userinfo, accept_userinfo
from fastapi_oidc.protocol.encoding import JSON, Claims
from fastapi_oidc.protocol.id_token import (
    Authentication,
    Expected,
    IdToken,
    accept_id_token,
    accept_refreshed_id_token,
    access_token_hash,
)
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

ACCESS_TOKEN = "access-1"
API = "https://api.test"

VALID: dict[str, JSON] = {
    "iss": ISSUER,
    "sub": "248289761001",
    "aud": [CLIENT_ID, API],
    "azp": CLIENT_ID,
    "exp": NOW + 300,
    "iat": NOW,
    "nbf": NOW,
    "nonce": "nonce-1",
    "auth_time": NOW - 60,
    "at_hash": access_token_hash(ACCESS_TOKEN, "RS256"),
    "sid": "op-session-1",
    "acr": "urn:mace:incommon:iap:silver",
    "name": "Alice",
    "unknown": {"of": ["any", "kind"]},
}

EXPECTED = Expected(
    issuer=TRUSTED,
    client_id=CLIENT_ID,
    algorithm="RS256",
    nonce="nonce-1",
    access_token=ACCESS_TOKEN,
    trusted_audiences=frozenset({API}),
    max_age=3600,
)

NULLABLE = ("azp", "nbf", "at_hash", "auth_time", "sid", "acr")


def test_the_unchanged_token_is_accepted() -> None:
    assert accept_id_token(VALID, EXPECTED, AT) == IdToken(
        iss=ISSUER,
        sub="248289761001",
        aud=(CLIENT_ID, API),
        azp=CLIENT_ID,
        exp=NOW + 300,
        iat=NOW,
        nonce="nonce-1",
        auth_time=NOW - 60,
        sid="op-session-1",
        acr="urn:mace:incommon:iap:silver",
        claims=VALID,
    )


@pytest.mark.parametrize("name", NULLABLE)
def test_an_optional_claim_of_null_is_absent(name: str) -> None:
    expected = replace(EXPECTED, max_age=None)
    null, absent = (
        accept_id_token(changed(VALID, {name: value}), expected, AT) for value in (None, ABSENT)
    )
    assert replace(null, claims={}) == replace(absent, claims={})


def test_a_number_as_acr_or_sid_is_its_digits() -> None:
    id_token = accept_id_token(changed(VALID, {"acr": 0, "sid": 2**64 - 1}), EXPECTED, AT)
    assert (id_token.acr, id_token.sid) == ("0", "18446744073709551615")


@pytest.mark.parametrize("aud", [CLIENT_ID, [CLIENT_ID], [API, CLIENT_ID, API]])
def test_the_audience_is_a_text_or_a_list(aud: JSON) -> None:
    accept_id_token(changed(VALID, {"aud": aud}), EXPECTED, AT)


@pytest.mark.parametrize("change", [{"sub": "a" * 255}, {"exp": 253_402_300_799}])
def test_the_largest_allowed_value_is_accepted(change: Changes) -> None:
    accept_id_token(changed(VALID, change), EXPECTED, AT)


BROKEN: Rules = {
    Code.ID_TOKEN_ISSUER: changes("iss", ABSENT, "https://op.test", "https://op.test/1", [ISSUER]),
    Code.ID_TOKEN_SUBJECT: changes("sub", ABSENT, "a" * 256, "é", 248289761001),
    Code.ID_TOKEN_AUDIENCE: [
        *changes("aud", ABSENT, "client-11", [API], [CLIENT_ID, "https://other.test"]),
        *changes("aud", [CLIENT_ID, None], {CLIENT_ID: True}),
    ],
    Code.ID_TOKEN_AUTHORIZED_PARTY: changes("azp", "client-2", API),
    Code.ID_TOKEN_EXPIRY: changes("exp", ABSENT, str(NOW + 300), 253_402_300_800),
    Code.ID_TOKEN_EXPIRED: changes("exp", NOW - 30, 0),
    Code.ID_TOKEN_ISSUED_AT: [*changes("iat", ABSENT, NOW + 31, str(NOW)), {"nbf": NOW + 31}],
    Code.ID_TOKEN_NONCE: changes("nonce", ABSENT, "nonce-11", "noncé"),
    Code.ID_TOKEN_ACCESS_TOKEN_HASH: changes("at_hash", "77QmUPtjPfzWtF2AnpK9RQ"),
    Code.ID_TOKEN_AUTH_TIME: changes("auth_time", ABSENT, NOW - 3630, NOW + 31, str(NOW)),
    Code.ID_TOKEN_SESSION_ID: changes("sid", 2**64, [1]),
    Code.ID_TOKEN_EVENTS: changes("events", {}, None),
}


@pytest.mark.parametrize(("change", "code"), breaking(BROKEN))
def test_one_wrong_claim_is_named(change: Changes, code: Code) -> None:
    with refused(code, ProtocolViolation):
        accept_id_token(changed(VALID, change), EXPECTED, AT)


RULED = ("iss", "sub", "aud", "exp", "iat", "nonce", "events", *NULLABLE)
ALLOWED: list[tuple[str, JSON]] = [*((name, None) for name in NULLABLE), ("iat", 1.5), ("nbf", 1.5)]


@pytest.mark.parametrize(
    ("name", "value"),
    [case for case in product(RULED, ODD_VALUES) if case not in ALLOWED],
    ids=repr,
)
def test_an_odd_value_is_refused_in_every_claim(name: str, value: JSON) -> None:
    with pytest.raises(ProtocolViolation, match=r"^id_token\."):
        accept_id_token(changed(VALID, {name: value}), EXPECTED, AT)


@pytest.mark.parametrize(
    "change",
    [
        *(*changes("exp", NOW - 29, NOW + 300.5), {"iat": NOW + 30}, {"nbf": NOW + 30}),
        *changes("auth_time", NOW - 3629, NOW + 30),
    ],
)
def test_the_drift_of_two_clocks_is_tolerated(change: Changes) -> None:
    accept_id_token(changed(VALID, change), EXPECTED, AT)


@pytest.mark.parametrize("nonce", ["nonce-1", ABSENT])
def test_no_login_is_without_a_nonce(nonce: JSON) -> None:
    with refused(Code.ID_TOKEN_NONCE, ProtocolViolation):
        accept_id_token(changed(VALID, {"nonce": nonce}), replace(EXPECTED, nonce=None), AT)


def test_at_hash_fails_closed_for_an_unknown_algorithm() -> None:
    with refused(Code.ID_TOKEN_ACCESS_TOKEN_HASH, ProtocolViolation):
        accept_id_token(VALID, replace(EXPECTED, algorithm="XS256"), AT)


def test_auth_time_is_needed_only_with_max_age() -> None:
    no_max_age = replace(EXPECTED, max_age=None)
    accept_id_token(changed(VALID, {"auth_time": ABSENT}), no_max_age, AT)
    accept_id_token(changed(VALID, {"auth_time": 0}), no_max_age, AT)


def test_a_max_age_of_zero_asks_for_an_authentication_just_now() -> None:
    now = replace(EXPECTED, max_age=0)
    accept_id_token(changed(VALID, {"auth_time": NOW - 29}), now, AT)
    with refused(Code.ID_TOKEN_AUTH_TIME, ProtocolViolation):
        accept_id_token(changed(VALID, {"auth_time": NOW - 30}), now, AT)


def test_nothing_secret_shows() -> None:
    assert "access-1" not in repr(EXPECTED)
    assert "Alice" not in repr(accept_id_token(VALID, EXPECTED, AT))


@pytest.mark.parametrize("acr", [ABSENT, "urn:mace:incommon:iap:bronze", "silver gold"])
def test_acr_is_one_of_those_that_were_asked_for(acr: JSON) -> None:
    expected = replace(EXPECTED, acr_values=("silver", "gold"))
    accept_id_token(changed(VALID, {"acr": "gold"}), expected, AT)
    with refused(Code.ID_TOKEN_AUTHENTICATION_CONTEXT, ProtocolViolation):
        accept_id_token(changed(VALID, {"acr": acr}), expected, AT)


@pytest.mark.parametrize(
    ("change", "explanation"),
    [
        ({"iat": NOW + 40, "nbf": None}, "iat is 40 s ahead of this clock; clock_drift is 30"),
        ({"nbf": NOW + 90}, "nbf is 90 s ahead of this clock; clock_drift is 30"),
        ({"auth_time": NOW - 4000}, "auth_time was 4000 s ago by this clock"),
    ],
)
def test_times_are_explained_by_their_difference_to_ours(change: Changes, explanation: str) -> None:
    with pytest.raises(ProtocolViolation, match=explanation):
        accept_id_token(changed(VALID, change), EXPECTED, AT)


ORIGINAL = Authentication(
    iss=ISSUER,
    sub="248289761001",
    aud=(CLIENT_ID, API),
    azp=CLIENT_ID,
    auth_time=NOW - 60,
    nonce="nonce-1",
)
AT_REFRESH = replace(EXPECTED, nonce=None, max_age=None)
REFRESHED = changed(VALID, {"nonce": ABSENT})


def accept(change: Changes, original: Authentication = ORIGINAL) -> IdToken:
    return accept_refreshed_id_token(changed(REFRESHED, change), original, AT_REFRESH, AT)


def test_the_unchanged_token_of_a_refresh_is_accepted() -> None:
    assert accept({}).sub == ORIGINAL.sub


def test_a_token_that_was_valid_when_it_came_is_accepted_however_late_that_is_known() -> None:
    """Core 3.1.3.7 rule 9 is about the moment of its acceptance; the key may come much later."""
    much_later = Instant(NOW + 7200)
    assert accept_refreshed_id_token(REFRESHED, ORIGINAL, AT_REFRESH, much_later, received=AT).sub
    for received in (None, much_later):
        with refused(Code.ID_TOKEN_EXPIRED, ProtocolViolation):
            accept_refreshed_id_token(
                REFRESHED, ORIGINAL, AT_REFRESH, much_later, received=received
            )


@pytest.mark.parametrize(
    "change",
    [
        *({"nonce": "nonce-1"}, {"auth_time": ABSENT}, {"aud": [API, CLIENT_ID]}),
        *({"sid": ABSENT}, {"at_hash": ABSENT}),
    ],
)
def test_what_a_provider_may_do_differently(change: Changes) -> None:
    accept(change)


BROKEN_BY_REFRESH: Rules = {
    Code.ID_TOKEN_ISSUER: changes("iss", "https://op.test/1"),
    Code.ID_TOKEN_SUBJECT: changes("sub", "another"),
    Code.ID_TOKEN_AUDIENCE: changes("aud", CLIENT_ID, [CLIENT_ID, API, "https://other.test"]),
    Code.ID_TOKEN_AUTHORIZED_PARTY: changes("azp", ABSENT, "client-2"),
    Code.ID_TOKEN_AUTH_TIME: changes("auth_time", NOW - 59),
    Code.ID_TOKEN_NONCE: changes("nonce", "nonce-2"),
    Code.ID_TOKEN_ACCESS_TOKEN_HASH: changes("at_hash", "77QmUPtjPfzWtF2AnpK9RQ"),
}


@pytest.mark.parametrize(("change", "code"), breaking(BROKEN_BY_REFRESH))
def test_one_wrong_claim_of_a_refresh_is_named(change: Changes, code: Code) -> None:
    with refused(code, ProtocolViolation):
        accept(change)


def test_a_login_without_auth_time_has_none_to_preserve() -> None:
    accept({}, replace(ORIGINAL, auth_time=None))


def test_neither_a_nonce_nor_another_tenant_can_appear_with_the_refresh() -> None:
    with refused(Code.ID_TOKEN_NONCE, ProtocolViolation):
        accept({"nonce": "nonce-1"}, replace(ORIGINAL, nonce=None))
    with refused(Code.ID_TOKEN_ISSUER, ProtocolViolation):
        accept({}, replace(ORIGINAL, iss="https://op.test/another-tenant"))


SUB = "248289761001"
PLAIN: dict[str, JSON] = {"sub": SUB, "name": "Alice", "address": {"country": "DE"}}
SIGNED: dict[str, JSON] = {**PLAIN, "iss": ISSUER, "aud": CLIENT_ID}


def accept_signed(claims: Claims) -> Claims:
    return accept_signed_userinfo(claims, sub=SUB, issuer=TRUSTED, client_id=CLIENT_ID, at=AT)


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
def test_a_signed_response_is_of_this_provider_for_us_and_now(change: Changes, code: Code) -> None:
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
