from __future__ import annotations

import pytest

from fastapi_oidc.errors import Code, ProtocolViolation
from fastapi_oidc.protocol.json import JSON, Claims
from fastapi_oidc.protocol.userinfo import accept_signed_userinfo, accept_userinfo
from tests.oidc.protocol.examples import (
    ABSENT,
    AT,
    CLIENT_ID,
    ISSUER,
    NOW,
    ODD_VALUES,
    Changes,
    changed,
    refused,
)

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


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"iss": "https://op.test"}, Code.USERINFO_ISSUER),
        ({"iss": [ISSUER]}, Code.USERINFO_ISSUER),
        ({"aud": "client-2"}, Code.USERINFO_AUDIENCE),
        ({"aud": ["client-2"]}, Code.USERINFO_AUDIENCE),
        ({"aud": {CLIENT_ID: 1}}, Code.USERINFO_AUDIENCE),
        ({"exp": NOW - 30}, Code.USERINFO_EXPIRED),
        ({"exp": "soon"}, Code.USERINFO_EXPIRED),
        ({"nbf": NOW + 31}, Code.USERINFO_EXPIRED),
        ({"nbf": "soon"}, Code.USERINFO_EXPIRED),
    ],
)
def test_a_signed_response_is_of_this_provider_for_this_client_and_now(
    change: Changes, code: Code
) -> None:
    with refused(code, ProtocolViolation):
        accept_signed(changed(SIGNED, change))


@pytest.mark.parametrize("name", ["iss", "aud", "exp", "nbf"])
def test_a_signed_response_may_leave_out_what_it_only_should_have(name: str) -> None:
    assert accept_signed(changed(SIGNED, {name: ABSENT}))
    assert accept_signed(changed(SIGNED, {name: None}))


def test_a_signed_response_within_its_time_is_accepted() -> None:
    assert accept_signed(changed(SIGNED, {"exp": NOW - 29, "nbf": NOW + 30}))


def test_the_audience_of_a_signed_response_may_be_a_list() -> None:
    assert accept_signed(changed(SIGNED, {"aud": ["client-2", CLIENT_ID]}))
