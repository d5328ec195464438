"""What was opened is remembered: briefly, in bounds, and with no other answer than without."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import pytest
from pydantic import JsonValue, ValidationError

from fastapi_oidc.clock import Clock
from fastapi_oidc.errors import Code, SessionError
from fastapi_oidc.session.codec import SessionCodec
from fastapi_oidc.session.cookies import CookieNames
from fastapi_oidc.session.model import OIDCSession, Tokens
from fastapi_oidc.session.opener import LARGEST, LIMIT, REMEMBERED, Opener
from fastapi_oidc.session.reference import ReferenceCookie, SessionReference
from fastapi_oidc.session.sealing import KeyRing, Sealer
from fastapi_oidc.session.session_cookie import SessionCookie
from tests.oidc.session.conftest import MovableClock
from tests.oidc.session.examples import NOW, OLD_SECRET, SECRET, User, a_session

NAMES, OTHER_NAMES = CookieNames("oidc", secure=True), CookieNames("partners", secure=True)
CLOCK = Clock(read=lambda: NOW)


class Reader:
    """Reads texts that end in "!" and notes which it was asked for."""

    def __init__(self, clock: Clock = CLOCK) -> None:
        self.asked: list[str] = []
        self.opener = Opener(self.read, clock=clock)

    def read(self, text: str) -> tuple[str, int]:
        self.asked.append(text)
        if not text.endswith("!"):
            raise SessionError(Code.SESSION_SEAL_BROKEN, "no key opens this")
        held = text.removesuffix("!")
        return held, len(text) + len(held)

    def has_to_read(self, text: str) -> bool:
        before = len(self.asked)
        assert self.opener.open(text) == text.removesuffix("!")
        return len(self.asked) > before


class CountedSealer(Sealer):
    opened = 0

    def decrypt(self, raw: bytes, *, name: str) -> bytes:
        self.opened += 1
        return super().decrypt(raw, name=name)


def a_sealer(secret: str = SECRET) -> CountedSealer:
    return CountedSealer(KeyRing([secret]).keys("session"))


def a_cookie(sealer: Sealer, names: CookieNames = NAMES) -> SessionCookie[User]:
    return SessionCookie(SessionCodec(User), sealer, names, clock=CLOCK)


def a_session_with(access_token: str) -> OIDCSession[User]:
    return a_session(tokens=Tokens(id_token="id.to.ken", access_token=access_token))


def test_a_text_is_read_once() -> None:
    reader = Reader()
    assert [reader.opener.open("text!") for _ in range(3)] == ["text"] * 3
    assert reader.asked == ["text!"]


def test_an_empty_content_is_a_content() -> None:
    reader = Reader()
    assert [reader.opener.open("!") for _ in range(2)] == ["", ""]
    assert reader.asked == ["!"]


def test_after_a_minute_it_is_read_again(moving: MovableClock) -> None:
    reader = Reader(moving.clock)
    reader.opener.open("text!")
    moving.second += REMEMBERED - 1
    assert not reader.has_to_read("text!")
    moving.second += 1
    assert reader.has_to_read("text!")


def test_coming_back_does_not_prolong_the_minute(moving: MovableClock) -> None:
    reader = Reader(moving.clock)
    for _ in range(REMEMBERED):
        reader.opener.open("text!")
        moving.second += 1
    assert reader.has_to_read("text!")


def test_what_is_refused_is_refused_anew_each_time() -> None:
    reader = Reader()
    for _ in range(2):
        with pytest.raises(SessionError):
            reader.opener.open("text")
    assert reader.asked == ["text", "text"]


def test_a_flood_of_refused_texts_drives_nothing_out() -> None:
    reader = Reader()
    reader.opener.open("text!")
    for number in range(2 * LIMIT):
        with pytest.raises(SessionError):
            reader.opener.open(f"forged {number}")
    assert not reader.has_to_read("text!")


def test_a_flood_of_good_texts_keeps_to_the_limit(moving: MovableClock) -> None:
    reader = Reader(moving.clock)
    texts = [f"{number}!" for number in range(3 * LIMIT)]
    for number, text in enumerate(texts):
        reader.opener.open(text)
        moving.second += number % 100 == 99
    assert not reader.has_to_read(texts[-LIMIT // 2])
    remembered = [text for text in reversed(texts) if not reader.has_to_read(text)]
    assert len(remembered) <= LIMIT


def test_what_is_large_is_not_remembered() -> None:
    reader = Reader()
    largest = "x" * ((LARGEST - 1) // 2) + "!"
    assert [reader.has_to_read(largest) for _ in range(2)] == [True, False]
    assert [reader.has_to_read("x" + largest) for _ in range(2)] == [True, True]


@pytest.mark.parametrize(("size", "times"), [(LARGEST, 1), (LARGEST + 1, 2)])
def test_the_size_of_what_is_remembered_is_exact(size: int, times: int) -> None:
    asked: list[str] = []

    def read(text: str) -> tuple[str, int]:
        asked.append(text)
        return text, size

    opener = Opener(read, clock=CLOCK)
    assert opener.open("text") == opener.open("text") == "text"
    assert len(asked) == times


def test_nothing_that_was_opened_is_in_repr() -> None:
    reader = Reader()
    reader.opener.open("secret!")
    assert "secret" not in repr(reader.opener)


def test_a_session_cookie_is_unsealed_once() -> None:
    sealer = a_sealer()
    cookie = a_cookie(sealer)
    value = cookie.seal(a_session())
    assert cookie.open(value) == cookie.open(value) == a_session()
    assert sealer.opened == 1


def test_two_requests_share_nothing_that_one_can_change() -> None:
    cookie = a_cookie(a_sealer())
    address: dict[str, JsonValue] = {"lines": [{"street": {"number": 1}}, []]}
    sealed = a_session(claims={"sub": "alice", "amr": ["pwd"], "address": address})
    value = cookie.seal(sealed)
    for _ in range(4):
        session = cookie.open(value)
        assert session == sealed
        changed: Any = session.claims
        changed["sub"] = "mallory"
        changed["amr"].append("none")
        changed["address"]["lines"][0]["street"]["number"] = 2
        changed["address"]["lines"][1].append("second")


def test_what_requests_share_is_frozen() -> None:
    cookie = a_cookie(a_sealer())
    value = cookie.seal(a_session())
    *_, one, other = [cookie.open(value) for _ in range(4)]
    assert one is not other
    changed: Any = one
    for frozen, name in ((changed, "sub"), (changed.tokens, "access_token")):
        with pytest.raises(ValidationError):
            setattr(frozen, name, "mallory")
    with pytest.raises(FrozenInstanceError):
        changed.identity.name = "Mallory"
    assert isinstance(one.tokens.scope, tuple)
    assert other == a_session()


def test_an_identity_that_can_be_changed_belongs_to_one_request() -> None:
    codec = SessionCodec(dict[str, list[str]])
    cookie = SessionCookie(codec, a_sealer(), NAMES, clock=CLOCK)
    session: Any = a_session().model_copy(update={"identity": {"roles": ["reader"]}})
    value = cookie.seal(session)
    for _ in range(4):
        identity = cookie.open(value).identity
        assert identity == {"roles": ["reader"]}
        identity["roles"].append("admin")


def test_a_deflated_session_is_inflated_once() -> None:
    sealer = a_sealer()
    cookie = a_cookie(sealer)
    session = a_session_with("repeated " * 500)
    value = cookie.seal(session)
    assert cookie.open(value) == cookie.open(value) == session
    assert sealer.opened == 1


def test_a_session_that_is_large_when_inflated_is_unsealed_each_time() -> None:
    sealer = a_sealer()
    cookie = a_cookie(sealer)
    value = cookie.seal(a_session_with("x" * LARGEST))
    assert len(value) < LARGEST // 2
    assert cookie.open(value) == cookie.open(value)
    assert sealer.opened == 2


def test_what_one_instance_opened_is_refused_by_another_all_the_same() -> None:
    cookie = a_cookie(a_sealer())
    value = cookie.seal(a_session())
    cookie.open(value)
    for stranger in (a_cookie(a_sealer(), OTHER_NAMES), a_cookie(a_sealer(OLD_SECRET))):
        with pytest.raises(SessionError) as caught:
            stranger.open(value)
        assert caught.value.code is Code.SESSION_SEAL_BROKEN


def test_a_session_of_another_type_is_refused_however_often_it_comes() -> None:
    sealer = a_sealer()
    value = a_cookie(sealer).seal(a_session())
    cookie = SessionCookie(SessionCodec(int), sealer, NAMES, clock=CLOCK)
    for _ in range(2):
        with pytest.raises(SessionError) as caught:
            cookie.open(value)
        assert caught.value.code is Code.SESSION_MALFORMED


def test_a_reference_is_unsealed_once() -> None:
    sealer = a_sealer()
    cookie = ReferenceCookie(sealer, NAMES, clock=CLOCK)
    reference = SessionReference.new()
    value = cookie.seal(reference)
    assert cookie.open(value) == cookie.open(value) == reference
    assert sealer.opened == 1
