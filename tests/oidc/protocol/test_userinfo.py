from __future__ import annotations

import pytest

from fastapi_oidc.errors import Code, ProtocolViolation
from fastapi_oidc.protocol.json import JSON, Claims
from fastapi_oidc.protocol.userinfo import accept_signed_userinfo, accept_userinfo
from tests.oidc.protocol.examples import (
    ABSENT,
    CLIENT_ID,
    ISSUER,
    ODD_VALUES,
    Changes,
    changed,
    refused,
)

SUB = "248289761001"
PLAIN: dict[str, JSON] = {"sub": SUB, "name": "Alice", "address": {"country": "DE"}}
SIGNED: dict[str, JSON] = {**PLAIN, "iss": ISSUER, "aud": CLIENT_ID}


def accept_signed(claims: Claims) -> Claims:
    return accept_signed_userinfo(claims, sub=SUB, issuer=ISSUER, client_id=CLIENT_ID)


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
        ({"iss": ABSENT}, Code.USERINFO_ISSUER),
        ({"iss": "https://op.test"}, Code.USERINFO_ISSUER),
        ({"iss": [ISSUER]}, Code.USERINFO_ISSUER),
        ({"aud": ABSENT}, Code.USERINFO_AUDIENCE),
        ({"aud": "client-2"}, Code.USERINFO_AUDIENCE),
        ({"aud": ["client-2"]}, Code.USERINFO_AUDIENCE),
        ({"aud": {CLIENT_ID: 1}}, Code.USERINFO_AUDIENCE),
        ({"aud": None}, Code.USERINFO_AUDIENCE),
    ],
)
def test_a_signed_response_names_provider_and_client(change: Changes, code: Code) -> None:
    with refused(code, ProtocolViolation):
        accept_signed(changed(SIGNED, change))


def test_the_audience_of_a_signed_response_may_be_a_list() -> None:
    assert accept_signed(changed(SIGNED, {"aud": ["client-2", CLIENT_ID]}))
