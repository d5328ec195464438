from __future__ import annotations

import json

import pytest

from fastapi_oidc.protocol.jose import base64url
from fastapi_oidc.session.opened_tokens import closed, opened
from tests.oidc.session.keycloak import keycloak_session

JSON_PART = base64url.encode(b'{"sub":"alice"}')


def test_what_a_token_says_stands_in_the_open() -> None:
    text = json.dumps({"token": f"{JSON_PART}.{JSON_PART}.c2lnbmF0dXJl"}).encode()
    assert opened(text).count(b'{"sub":"alice"}') == 2
    assert closed(opened(text)) == text


@pytest.mark.parametrize(
    "token",
    [
        "",
        "opaque",
        "eyJ",
        "eyJhb",
        JSON_PART[:-1] + "x",
        JSON_PART + "=",
        base64url.encode(b'{"a":"\x00"}'),
        base64url.encode(b'{"a":"\x01"}'),
        base64url.encode(b'{"a":"\x00\x01\x01\x00"}'),
        base64url.encode(b'{"sub":"alice1"}')[:-1] + "R",
        f"x{JSON_PART}",
        f"{JSON_PART}.{JSON_PART}.{JSON_PART}.{JSON_PART}.{JSON_PART}",
    ],
)
def test_every_text_comes_back_as_it_was(token: str) -> None:
    text = json.dumps({"token": token, "text": "eyJ \u0000\u0001 \x00"}).encode()
    assert closed(opened(text)) == text


def test_a_keycloak_session_comes_back_as_it_was() -> None:
    text = keycloak_session().tokens.access_token.join(('{"a":"', '"}')).encode()
    assert closed(opened(text)) == text != opened(text)
