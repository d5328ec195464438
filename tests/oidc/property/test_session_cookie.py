"""Sessions survive their cookie, and no content of a cookie does anything but fail as it should."""

import base64
import string

from hypothesis import assume, example, given
from hypothesis import strategies as st

from fastapi_oidc.errors import SessionError
from fastapi_oidc.session.cookies import CookieNames, KeyRing, sealed_length
from fastapi_oidc.session.model import OIDCSession, Tokens
from fastapi_oidc.session.session_cookie import CookieTooLarge, SessionCodec, SessionCookie
from tests.oidc.session.examples import OLD_SECRET, SECRET, User, a_session

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
def test_a_session_survives_its_cookie_or_is_called_too_large(session: OIDCSession[User]) -> None:
    try:
        value = COOKIE.seal(session, CODEC.encode(session), 0, b"")
    except CookieTooLarge:
        return
    assert len(NAMES.session) + len(value) <= 3800
    assert COOKIE.open(value).session == session


prefixes = st.text(string.ascii_letters + string.digits + "_-", min_size=1, max_size=20)
any_text = st.text(st.characters(exclude_categories=[]))
"""Lone surrogates included."""


@given(prefix=prefixes, other=prefixes, state=any_text)
def test_two_prefixes_share_no_name(prefix: str, other: str, state: str) -> None:
    assume(prefix != other)
    one, two = CookieNames(prefix, secure=True), CookieNames(other, secure=True)
    assert not one.is_transaction(two.transaction(state))
    assert one.session not in (two.session, two.transaction(state))


RING = KeyRing([SECRET, OLD_SECRET])
SEALER_OF_ANY = RING.sealer("session")

names = st.text(max_size=40).filter(lambda name: name.isprintable())


def opens(sealed: str, name: str) -> bool:
    try:
        SEALER_OF_ANY.open(sealed, name=name)
    except SessionError:
        return False
    return True


@given(content=st.binary(max_size=5000), name=names)
def test_what_was_sealed_opens(content: bytes, name: str) -> None:
    sealed = SEALER_OF_ANY.seal(content, name=name)
    assert SEALER_OF_ANY.open(sealed, name=name) == content
    assert len(sealed) == sealed_length(len(content))


@given(content=st.binary(max_size=200), place=st.integers(min_value=0))
def test_one_flipped_bit_of_the_sealed_bytes_never_opens(content: bytes, place: int) -> None:
    sealed = SEALER_OF_ANY.seal(content, name="a")
    raw = bytearray(base64.urlsafe_b64decode(sealed + "=" * (-len(sealed) % 4)))
    raw[place // 8 % len(raw)] ^= 1 << place % 8
    assert not opens(base64.urlsafe_b64encode(raw).decode().rstrip("="), "a")


@given(content=st.binary(max_size=200), text=st.text(min_size=1, max_size=8), place=st.integers(0))
def test_no_text_can_be_put_in_or_taken_out(content: bytes, text: str, place: int) -> None:
    sealed = SEALER_OF_ANY.seal(content, name="a")
    start = place % (len(sealed) + 1)
    assert not opens(sealed[:start] + text + sealed[start:], "a")
    assert not opens(sealed[:start], "a") or start == len(sealed)


@given(content=st.binary(max_size=200), name=names, other=names)
def test_a_seal_opens_under_its_own_name_alone(content: bytes, name: str, other: str) -> None:
    assume(name != other)
    assert not opens(SEALER_OF_ANY.seal(content, name=name), other)


@given(text=any_text)
@example(text="A" * 16)
@example(text="\ud800" * 40)
def test_any_text_gives_a_session_error(text: str) -> None:
    assert not opens(text, "a")
