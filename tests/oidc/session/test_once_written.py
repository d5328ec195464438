from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from fastapi_oidc.errors import Code, SessionError
from fastapi_oidc.session.codec import SessionCodec
from fastapi_oidc.session.model import OIDCSession, Tokens
from tests.oidc.session.examples import User, a_session

CODEC = SessionCodec(User)
CLAIMS = {"iss": "https://op.example.com", "sub": "alice", "groups": ["a", "b"], "age": 18.5}


def a_token(payload: bytes) -> str:
    return f"eyJhIjoxfQ.{base64.urlsafe_b64encode(payload).decode().rstrip('=')}.c2ln"


def with_token(payload: bytes, claims: dict[str, Any] = CLAIMS) -> OIDCSession[User]:
    tokens = Tokens(id_token=a_token(payload), access_token="a.b.c", scope=("openid",))
    return a_session(claims=claims, tokens=tokens)


@pytest.mark.parametrize(
    "payload",
    [
        json.dumps(CLAIMS).encode(),
        json.dumps(CLAIMS, separators=(",", ":")).encode(),
        json.dumps(CLAIMS, indent=2).encode(),
    ],
)
def test_claims_that_the_id_token_has_are_written_once(payload: bytes) -> None:
    session = with_token(payload)
    short = CODEC.encode_short(session)
    assert short is not None
    assert b"groups" not in short
    assert CODEC.decode(short) == session
    assert list(CODEC.decode(short).claims) == list(CLAIMS)


@pytest.mark.parametrize(
    ("written", "kept"),
    [({"n": 1}, {"n": True}), ({"n": 1}, {"n": 1.0}), ({"a": 1, "b": 2}, {"b": 2, "a": 1})],
)
def test_claims_that_only_count_as_equal_are_written(
    written: dict[str, Any], kept: dict[str, Any]
) -> None:
    session = with_token(json.dumps(written).encode(), kept)
    assert CODEC.encode_short(session) is None
    assert json.dumps(CODEC.decode(CODEC.encode(session)).claims) == json.dumps(kept)


@pytest.mark.parametrize("id_token", ["", "opaque", "a.!.c", "a.e30.c", "eyJhIjoxfQ"])
def test_claims_that_the_application_changed_or_no_jwt_has_are_written(id_token: str) -> None:
    session = a_session(tokens=Tokens(id_token=id_token, access_token="a"))
    assert CODEC.encode_short(session) is None


def test_what_an_identity_is_called_misleads_nobody() -> None:
    """Its members may have any name; tokens are looked for behind it."""
    codec: SessionCodec[Any] = SessionCodec(dict[str, Any])
    identity = {"x": 1, "tokens": {"id_token": a_token(b'{"sub": "mallory"}')}}
    session: OIDCSession[Any] = with_token(json.dumps(CLAIMS).encode())
    for changes in (
        {"identity": identity},
        {"identity": identity, "session_state": ',"tokens":{"id_token":"e30.e30.e30"'},
    ):
        changed = session.model_copy(update=changes)
        short = codec.encode_short(changed)
        assert short is not None
        assert codec.decode(short) == changed


@pytest.mark.parametrize("encoded", [b"i", b"i{}", b'i{"sub":"a","tokens":{"id_token":"abc"}}'])
def test_what_nobody_wrote_is_malformed(encoded: bytes) -> None:
    with pytest.raises(SessionError) as caught:
        CODEC.decode(encoded)
    assert caught.value.code is Code.SESSION_MALFORMED
