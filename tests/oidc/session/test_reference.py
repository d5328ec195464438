from __future__ import annotations

import os

import pytest

from fastapi_oidc.errors import Code, SessionError
from fastapi_oidc.session.cookies import CookieNames
from fastapi_oidc.session.model import OIDCSession
from fastapi_oidc.session.revocations import keys_of
from fastapi_oidc.session.sealing import KeyRing
from fastapi_oidc.session.session_cookie import ReferenceCookie, digest_of
from tests.oidc.session.examples import SECRET, User, a_session

NAMES = CookieNames("oidc", secure=True)
RING = KeyRing([SECRET])


def a_cookie(purpose: str = "reference") -> ReferenceCookie[User]:
    return ReferenceCookie(RING.sealer(purpose), NAMES)


@pytest.mark.parametrize("session", [a_session(), a_session(sid=None)], ids=["sid", "no sid"])
def test_a_cookie_has_what_is_needed_to_find_and_to_end_its_session(
    session: OIDCSession[User],
) -> None:
    secret = os.urandom(32)
    copy = a_cookie().open(a_cookie().seal(session, b"", 3, secret))
    assert copy == (session.id, keys_of(session), 3, session.expires_at, None, secret)


def test_another_sid_or_epoch_needs_another_cookie() -> None:
    session, cookie = a_session(), a_cookie()
    copy = cookie.open(cookie.seal(session, b"", 3, os.urandom(32)))
    assert cookie.leads_to(copy, session, 3)
    assert not cookie.leads_to(copy, session, 4)
    assert not cookie.leads_to(copy, a_session(sid="another"), 3)


def test_the_row_has_only_a_digest_of_the_secret() -> None:
    secret = os.urandom(32)
    assert digest_of(secret) != secret.hex()
    assert len(bytes.fromhex(digest_of(secret))) == 32


@pytest.mark.parametrize("rest", [b"", b"{}", b"[]", b'["id", [], 0]', b'["id", 7, 0, 1]', b"\xff"])
def test_a_reference_of_another_form_is_refused(rest: bytes) -> None:
    sealed = RING.sealer("reference").seal(bytes(32) + rest, name=NAMES.session)
    with pytest.raises(SessionError) as caught:
        a_cookie().open(sealed)
    assert caught.value.code is Code.SESSION_MALFORMED


def test_a_reference_that_was_not_sealed_here_is_refused() -> None:
    planted = a_cookie("session").seal(a_session(), b"", 0, bytes(32))
    with pytest.raises(SessionError) as caught:
        a_cookie().open(planted)
    assert caught.value.code is Code.SESSION_SEAL_BROKEN
