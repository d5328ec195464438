"""Whatever a browser sends instead of its cookie, it is refused with a SessionError."""

from __future__ import annotations

import base64

from hypothesis import assume, given
from hypothesis import strategies as st

from fastapi_oidc.errors import SessionError
from fastapi_oidc.session.sealing import KeyRing, sealed_length
from tests.oidc.session.examples import OLD_SECRET, SECRET

RING = KeyRing([SECRET, OLD_SECRET])
SEALER = RING.sealer("session")

names = st.text(max_size=40).filter(lambda name: name.isprintable())


def opens(sealed: str, name: str) -> bool:
    try:
        SEALER.open(sealed, name=name)
    except SessionError:
        return False
    return True


@given(content=st.binary(max_size=5000), name=names)
def test_what_was_sealed_opens(content: bytes, name: str) -> None:
    sealed = SEALER.seal(content, name=name)
    assert SEALER.open(sealed, name=name) == content
    assert len(sealed) == sealed_length(len(content))


@given(content=st.binary(max_size=200), place=st.integers(min_value=0))
def test_one_flipped_bit_of_the_sealed_bytes_never_opens(content: bytes, place: int) -> None:
    sealed = SEALER.seal(content, name="a")
    raw = bytearray(base64.urlsafe_b64decode(sealed + "=" * (-len(sealed) % 4)))
    raw[place // 8 % len(raw)] ^= 1 << place % 8
    assert not opens(base64.urlsafe_b64encode(raw).decode().rstrip("="), "a")


@given(content=st.binary(max_size=200), place=st.integers(min_value=0))
def test_one_flipped_bit_of_the_text_never_opens(content: bytes, place: int) -> None:
    text = bytearray(SEALER.seal(content, name="a").encode())
    text[place // 8 % len(text)] ^= 1 << place % 8
    assert not opens(text.decode("latin-1"), "a")


@given(content=st.binary(max_size=200), text=st.text(min_size=1, max_size=8), place=st.integers(0))
def test_no_text_can_be_put_in_or_taken_out(content: bytes, text: str, place: int) -> None:
    sealed = SEALER.seal(content, name="a")
    start = place % (len(sealed) + 1)
    assert not opens(sealed[:start] + text + sealed[start:], "a")
    assert not opens(sealed[:start], "a") or start == len(sealed)


@given(content=st.binary(max_size=200), name=names, other=names)
def test_a_seal_opens_under_its_own_name_alone(content: bytes, name: str, other: str) -> None:
    assume(name != other)
    assert not opens(SEALER.seal(content, name=name), other)


@given(text=st.text())
def test_any_text_gives_a_session_error(text: str) -> None:
    assert not opens(text, "a")


@given(raw=st.binary(max_size=200))
def test_any_bytes_give_a_session_error(raw: bytes) -> None:
    assert not opens(base64.urlsafe_b64encode(raw).decode().rstrip("="), "a")
