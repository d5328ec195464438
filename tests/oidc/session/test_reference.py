from __future__ import annotations

import base64
import hashlib
import secrets

import pytest

from fastapi_oidc.errors import Code, SessionError
from fastapi_oidc.session.cookies import CookieNames
from fastapi_oidc.session.reference import ReferenceCookie, SessionReference
from fastapi_oidc.session.revocations import digests_of
from fastapi_oidc.session.sealing import KeyRing
from tests.oidc.session.examples import NOW, SECRET, a_session

NAMES = CookieNames("oidc", secure=True)
RING = KeyRing([SECRET])


def test_a_reference_is_256_random_bits() -> None:
    one, other = SessionReference.new(), SessionReference.new()
    assert one != other
    assert len(one.secret) == 32


def test_the_store_sees_a_hash_of_it() -> None:
    reference = SessionReference(b"x" * 32)
    digest = base64.urlsafe_b64decode(reference.store_id + "=")
    assert digest == hashlib.sha256(b"x" * 32).digest()
    assert len(reference.store_id) == 43


def test_a_reference_is_not_in_repr() -> None:
    assert "xxx" not in repr(SessionReference(b"x" * 32))


def test_a_reference_comes_back_from_its_cookie() -> None:
    cookie = ReferenceCookie(RING.sealer("reference"), NAMES)
    reference = SessionReference.new()
    assert cookie.open(cookie.seal(reference)) == reference


def test_a_cookie_remembers_the_keys_of_its_session() -> None:
    cookie = ReferenceCookie(RING.sealer("reference"), NAMES)
    for session in (a_session(), a_session(sid=None)):
        reference = SessionReference(b"x" * 32, digests_of(session))
        assert cookie.open(cookie.seal(reference)).digests == reference.digests


@pytest.mark.parametrize("digests", [(), digests_of(a_session()), digests_of(a_session(sid=None))])
def test_a_cookie_names_its_session_and_its_end(digests: tuple[str, ...]) -> None:
    cookie = ReferenceCookie(RING.sealer("reference"), NAMES)
    reference = SessionReference(b"x" * 32, digests, secrets.token_urlsafe(16), NOW)
    opened = cookie.open(cookie.seal(reference))
    assert (opened.session_id, opened.expires_at) == (reference.session_id, NOW)
    assert opened.digests == digests


def test_a_cookie_without_a_name_is_read_as_one() -> None:
    """Those of versions that did not write it, and ids that are longer than ours."""
    cookie = ReferenceCookie(RING.sealer("reference"), NAMES)
    digests = digests_of(a_session())
    for reference in (
        SessionReference(b"x" * 32, digests),
        SessionReference(b"x" * 32, digests, "i" * 24, NOW),
    ):
        opened = cookie.open(cookie.seal(reference))
        assert (opened.session_id, opened.expires_at, opened.digests) == ("", 0, digests)


def test_a_reference_of_0_1_0_remembers_none() -> None:
    sealer = RING.sealer("reference")
    reference = ReferenceCookie(sealer, NAMES).open(sealer.seal(b"x" * 32, name=NAMES.session))
    assert (reference, reference.digests) == (SessionReference(b"x" * 32), ())


@pytest.mark.parametrize("length", [0, 31, 33, 40])
def test_a_reference_of_another_length_is_refused(length: int) -> None:
    sealer = RING.sealer("reference")
    with pytest.raises(SessionError) as caught:
        ReferenceCookie(sealer, NAMES).open(sealer.seal(bytes(length), name=NAMES.session))
    assert caught.value.code is Code.SESSION_MALFORMED


def test_a_session_id_that_is_no_text_is_none_that_anybody_has() -> None:
    sealer = RING.sealer("reference")
    sealed = sealer.seal(b"x" * 32 + bytes(8) + b"\xff", name=NAMES.session)
    assert ReferenceCookie(sealer, NAMES).open(sealed).session_id == "\ufffd"


def test_a_reference_that_was_not_sealed_here_is_refused() -> None:
    cookie = ReferenceCookie(RING.sealer("reference"), NAMES)
    planted = ReferenceCookie(RING.sealer("session"), NAMES).seal(SessionReference(b"x" * 32))
    with pytest.raises(SessionError) as caught:
        cookie.open(planted)
    assert caught.value.code is Code.SESSION_SEAL_BROKEN
