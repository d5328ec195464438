from __future__ import annotations

import base64
import hashlib
import os
import secrets

import pytest

from fastapi_oidc.errors import Code, SessionError
from fastapi_oidc.session.cookies import CookieNames
from fastapi_oidc.session.model import OIDCSession
from fastapi_oidc.session.reference import ReferenceCookie, SessionReference
from fastapi_oidc.session.revocations import digests_of
from fastapi_oidc.session.sealing import KeyRing
from tests.oidc.session.examples import NOW, SECRET, User, a_session

NAMES = CookieNames("oidc", secure=True)
RING = KeyRing([SECRET])


def test_a_reference_is_256_random_bits() -> None:
    one, other = SessionReference.new(), SessionReference.new()
    assert one != other
    assert one.secret is not None
    assert len(one.secret) == 32


def test_the_store_sees_a_hash_of_it() -> None:
    reference = SessionReference.of(b"x" * 32)
    digest = base64.urlsafe_b64decode(reference.store_id + "=")
    assert digest == hashlib.sha256(b"x" * 32).digest()
    assert len(reference.store_id) == 43


def test_a_reference_is_not_in_repr() -> None:
    assert "xxx" not in repr(SessionReference.of(b"x" * 32))


@pytest.mark.parametrize("session", [a_session(), a_session(sid=None)], ids=["sid", "no sid"])
def test_a_reference_comes_back_from_its_cookie(session: OIDCSession[User]) -> None:
    cookie = ReferenceCookie(RING.sealer("reference"), NAMES)
    secret, digests = os.urandom(32), digests_of(session)
    reference = SessionReference.of(secret, digests, secrets.token_urlsafe(16), NOW)
    opened = cookie.open(cookie.seal(reference))
    assert opened == reference
    assert opened.digests == digests
    assert (opened.session_id, opened.expires_at) == (reference.session_id, NOW)


@pytest.mark.parametrize("plaintext", [b"", b"\0" * 41, b"\x04" + b"\0" * 168, b"\xff" * 200])
def test_a_reference_that_is_too_short_is_refused(plaintext: bytes) -> None:
    sealer = RING.sealer("reference")
    with pytest.raises(SessionError) as caught:
        ReferenceCookie(sealer, NAMES).open(sealer.seal(plaintext, name=NAMES.session))
    assert caught.value.code is Code.SESSION_MALFORMED


def test_a_reference_that_was_not_sealed_here_is_refused() -> None:
    cookie = ReferenceCookie(RING.sealer("reference"), NAMES)
    planted = ReferenceCookie(RING.sealer("session"), NAMES).seal(
        SessionReference.of(b"x" * 32, (), "id", NOW)
    )
    with pytest.raises(SessionError) as caught:
        cookie.open(planted)
    assert caught.value.code is Code.SESSION_SEAL_BROKEN
