"""Sessions survive their cookie, and no content of a cookie does anything but fail as it should."""

from __future__ import annotations

import json
import zlib
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from fastapi_oidc.errors import Code, SessionError
from fastapi_oidc.session.codec import SessionCodec, TransactionCodec
from fastapi_oidc.session.cookies import CookieNames
from fastapi_oidc.session.model import OIDCSession, Tokens
from fastapi_oidc.session.sealing import KeyRing
from fastapi_oidc.session.session_cookie import CookieTooLarge, SessionCookie
from tests.oidc.session.examples import SECRET, User, a_session

NAMES = CookieNames("oidc", secure=True)
SEALER = KeyRing([SECRET]).sealer("session")
CODEC = SessionCodec(User)
COOKIE = SessionCookie(CODEC, SEALER, NAMES)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=50)
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=10,
)
claims = st.dictionaries(texts, json_values, max_size=6)
tokens = st.builds(
    Tokens,
    id_token=texts,
    access_token=st.text("abc.", max_size=6000),
    refresh_token=st.none() | texts,
    expires_at=st.none() | st.integers(0, 2**40),
    scope=st.lists(texts, max_size=3).map(tuple),
)


def sessions() -> st.SearchStrategy[OIDCSession[User]]:
    return st.builds(
        lambda claims, tokens: a_session(claims={"sub": "alice"} | claims, tokens=tokens),
        claims,
        tokens,
    )


@given(session=sessions())
def test_a_session_survives_its_cookie_or_is_said_to_be_too_large(
    session: OIDCSession[User],
) -> None:
    try:
        value = COOKIE.seal(session, CODEC.encode(session), 0, b"")
    except CookieTooLarge:
        return
    assert len(NAMES.session) + len(value) <= 3800
    assert COOKIE.open(value).session == session


@given(plaintext=st.binary(max_size=300))
def test_any_sealed_bytes_give_a_session_error(plaintext: bytes) -> None:
    for marked in (plaintext, b"d" + plaintext):
        assert code_of(marked) is Code.SESSION_MALFORMED


@given(content=st.binary(max_size=300), length=st.integers(0, 300), rest=st.binary(max_size=5))
def test_any_deflate_stream_gives_a_session_error(content: bytes, length: int, rest: bytes) -> None:
    stream = zlib.compress(content, wbits=-15)[:length] + rest
    assert code_of(b"d" + stream) is Code.SESSION_MALFORMED


@given(path=st.sampled_from([*json.loads(CODEC.encode(a_session()))]), value=json_values)
def test_a_session_with_any_odd_member_is_read_or_refused(path: str, value: JsonValue) -> None:
    members = cast("dict[str, JsonValue]", json.loads(CODEC.encode(a_session())))
    code = code_of(json.dumps(members | {path: value}).encode())
    assert code in (None, Code.SESSION_MALFORMED)


@given(document=st.binary(max_size=300) | json_values.map(lambda value: json.dumps(value).encode()))
def test_any_document_gives_a_session_error(document: bytes) -> None:
    for decode in (CODEC.decode, TransactionCodec().decode):
        with pytest.raises(SessionError) as caught:
            decode(document)
        assert caught.value.code is Code.SESSION_MALFORMED


def code_of(plaintext: bytes) -> Code | None:
    """The error of a cookie with this content; None when it is a session."""
    try:
        COOKIE.open(SEALER.seal(plaintext, name=NAMES.session))
    except SessionError as error:
        return error.code
    return None
