"""Sessions survive their cookie, and no content of a cookie does anything but fail as it should."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fastapi_oidc.session.codec import SessionCodec
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
