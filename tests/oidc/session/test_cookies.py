import base64
import secrets
from typing import Any

import pytest

from fastapi_oidc.errors import Code, ConfigurationError, SessionError
from fastapi_oidc.protocol.urls import MAX_RETURN_PATH_LENGTH
from fastapi_oidc.session.cookies import (
    MAXIMUM_COOKIE_BYTES,
    MAXIMUM_PENDING,
    PENDING_SECONDS,
    REFERENCE_BYTES,
    CookieChange,
    CookieNames,
    KeyRing,
    Sealer,
    TransactionCookies,
)
from fastapi_oidc.session.model import PreviousSession
from tests.oidc.session.examples import NOW, OLD_SECRET, SECRET, a_transaction


@pytest.mark.parametrize(
    ("change", "header"),
    [
        ({"max_age": 60}, "a=abc; Max-Age=60; Path=/; HttpOnly; SameSite=Lax; Secure"),
        ({"value": None}, "a=; Max-Age=0; Path=/; HttpOnly; SameSite=Lax; Secure"),
        ({"secure": False}, "a=abc; Path=/; HttpOnly; SameSite=Lax"),
        ({"same_site": "none"}, "a=abc; Path=/; HttpOnly; SameSite=None; Secure"),
    ],
    ids=["set", "deleted", "for the browser session over plain http", "for cross-site form posts"],
)
def test_a_cookie_has_its_header(change: dict[str, Any], header: str) -> None:
    assert CookieChange(**{"name": "a", "value": "abc"} | change).header_value() == header


@pytest.mark.parametrize("text", ["a;b", "a\r\nSet-Cookie: b", "a b", "é", "a,b", 'a"', "a=b"])
def test_a_name_or_value_cannot_add_to_the_header(text: str) -> None:
    with pytest.raises(ValueError, match="not allowed"):
        CookieChange(name=text, value="abc")
    with pytest.raises(ValueError, match="not allowed"):
        CookieChange(name="a", value=text)


def test_names_over_https_have_the_host_prefix() -> None:
    names = CookieNames("oidc", secure=True)
    assert names.session == "__Host-oidc_session"
    assert names.transaction("state-1").startswith("__Host-oidc_login_")
    assert "state-1" not in names.transaction("state-1"), "it does not give the state away"
    assert CookieNames("oidc", secure=False).session == "oidc_session"


@pytest.mark.parametrize("prefix", ["", "a b", "a;b", "é", "x" * 21, "a=b"])
def test_a_prefix_that_is_no_cookie_name_is_refused(prefix: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        CookieNames(prefix, secure=True)
    assert caught.value.code is Code.CONFIGURATION_INVALID
    assert CookieNames("x" * 20, secure=False).session == "x" * 20 + "_session"


@pytest.mark.parametrize("secure", [True, False])
def test_an_instance_knows_its_own_cookies_from_others(secure: bool) -> None:
    names = CookieNames("oidc", secure=secure)
    others = CookieNames("oidc2", secure=secure)
    for name in (names.session, names.transaction("state-1")):
        assert names.is_ours(name)
        assert not others.is_ours(name)
    digests = ["", "X" + "0" * 31, "0" * 31 + "X", "0" * 31 + "F", "0" * 31, "0" * 33]
    logins = [names.transaction_prefix + digest for digest in digests]
    for name in ("", "theme", names.session + "2", "oidc_login_", *logins):
        assert not names.is_ours(name)


NAMES = CookieNames("oidc", secure=True)
PENDING = KeyRing([SECRET]).sealer("pending")
TRANSACTIONS = TransactionCookies(PENDING, NAMES)

ROOM = MAXIMUM_COOKIE_BYTES - REFERENCE_BYTES


class Browser(dict[str, str]):
    """The cookies a browser holds."""

    def apply(self, *changes: CookieChange) -> None:
        for change in changes:
            if change.value is None:
                self.pop(change.name, None)
            else:
                self[change.name] = change.value

    def begin(
        self, state: str, *, created_at: int = NOW, return_to: str = "/"
    ) -> tuple[CookieChange, ...]:
        transaction = a_transaction(state=state, created_at=created_at, return_to=return_to)
        changes = TRANSACTIONS.begun(transaction, self)
        self.apply(*changes)
        return changes


def test_a_login_lives_ten_minutes() -> None:
    browser = Browser()
    (change,) = browser.begin("one")
    assert (change.max_age, change.same_site, change.secure) == (600, "lax", True)
    assert TRANSACTIONS.find("one", browser, now=NOW + PENDING_SECONDS - 1) is not None
    assert TRANSACTIONS.find("one", browser, now=NOW + PENDING_SECONDS) is None


def test_a_transaction_under_the_name_of_another_is_not_found() -> None:
    browser = Browser()
    browser.begin("one")
    browser[NAMES.transaction("two")] = browser[NAMES.transaction("one")]
    assert TRANSACTIONS.find("two", browser, now=NOW) is None


def test_a_login_is_kept_for_requests_of_this_site_unless_the_provider_posts() -> None:
    ordinary = TransactionCookies(PENDING, NAMES)
    posted = TransactionCookies(PENDING, NAMES, same_site="none")
    assert [change.same_site for change in ordinary.ended("one", {})] == ["lax"]
    assert [change.same_site for change in posted.ended("one", {})] == ["none"]
    plain = TransactionCookies(PENDING, CookieNames("oidc", secure=False))
    assert [change.secure for change in ordinary.ended("one", {})] == [True]
    assert [change.secure for change in plain.ended("one", {})] == [False]


def test_what_cannot_be_read_is_not_forgotten() -> None:
    """It may be of another version, and be read by the process that serves the next request."""
    name = NAMES.transaction("one")
    assert TRANSACTIONS.ended("one", {name: "of the next version"}) == ()


def test_the_oldest_of_eight_makes_room() -> None:
    browser = Browser()
    for number in range(MAXIMUM_PENDING):
        # the browser sends them in any order: age counts, not place
        age = 10 * (number * 3 % MAXIMUM_PENDING)
        browser.begin(str(number), created_at=NOW - age)
    browser.begin("new")
    alive = [state for state in "01234567" if TRANSACTIONS.find(state, browser, now=NOW)]
    assert alive == list("0123467")
    assert len(browser) == MAXIMUM_PENDING


@pytest.mark.parametrize("length", [*range(1, MAX_RETURN_PATH_LENGTH, 37), MAX_RETURN_PATH_LENGTH])
def test_pending_logins_have_a_budget_in_bytes(length: int) -> None:
    browser = Browser()
    for number in range(12):
        browser.begin(str(number), created_at=NOW + number, return_to="/" + "a" * (length - 1))
        assert sum(len(name) + len(value) + 3 for name, value in browser.items()) <= ROOM
    alive = [n for n in range(12) if TRANSACTIONS.find(str(n), browser, now=NOW + 12)]
    assert alive == list(range(12 - len(browser), 12))
    assert len(alive) >= 2


def test_a_login_remembers_the_session_that_it_replaces() -> None:
    previous = PreviousSession(id="session-1", expires_at=NOW, secret="reference")
    (change,) = TRANSACTIONS.begun(a_transaction(previous=previous), {})
    found = TRANSACTIONS.find("state-1", {change.name: change.value or ""}, now=NOW)
    assert found is not None
    assert found.previous == previous
    assert "reference" not in repr(previous)


def test_old_ones_leave_and_what_cannot_be_read_when_there_is_no_room() -> None:
    browser = Browser(unrelated="kept")
    browser[NAMES.transaction("unreadable")] = "of the next version"
    browser.begin("old", created_at=NOW - PENDING_SECONDS)
    browser.begin("new")
    names = [NAMES.transaction(state) for state in ("unreadable", "new")]
    assert set(browser) == {"unrelated", *names}
    for number in range(MAXIMUM_PENDING - 1):
        browser.begin(str(number), created_at=NOW - number)
    assert NAMES.transaction("unreadable") not in browser
    alive = [*map(str, range(MAXIMUM_PENDING - 1)), "new"]
    assert all(TRANSACTIONS.find(state, browser, now=NOW) for state in alive), "it leaves first"


def test_the_budget_is_exact() -> None:
    (change,) = TRANSACTIONS.begun(a_transaction(), {})
    name = NAMES.transaction("another")
    left = ROOM - len(change.name) - len(change.value or "") - len(name) - 2 * len("=; ")
    assert len(TRANSACTIONS.begun(a_transaction(), {name: "x" * left})) == 1
    assert len(TRANSACTIONS.begun(a_transaction(), {name: "x" * (left + 1)})) == 2


def test_what_a_transaction_has_not_takes_no_room() -> None:
    (change,) = TRANSACTIONS.begun(a_transaction(), {})
    assert b"null" not in PENDING.open(change.value or "", name=change.name)
    assert str(change.value) not in repr(change)


SEALER = KeyRing([SECRET]).sealer("session")


def refused(sealed: str, *, sealer: Sealer = SEALER, name: str = "a") -> bool:
    with pytest.raises(SessionError) as caught:
        sealer.open(sealed, name=name)
    assert not sealed or sealed not in str(caught.value)
    return caught.value.code is Code.SESSION_SEAL_BROKEN


def test_the_same_content_is_never_sealed_twice_alike() -> None:
    assert SEALER.seal(b"content", name="a") != SEALER.seal(b"content", name="a")


@pytest.mark.parametrize(("secret", "purpose"), [(SECRET, "transaction"), (OLD_SECRET, "session")])
def test_a_seal_opens_for_its_purpose_and_with_its_secret_alone(secret: str, purpose: str) -> None:
    assert refused(KeyRing([secret]).sealer(purpose).seal(b"content", name="a"))


def test_the_newest_secret_seals_and_all_open() -> None:
    old = KeyRing([OLD_SECRET]).sealer("session")
    rotated = KeyRing([SECRET, OLD_SECRET]).sealer("session")
    assert rotated.open(old.seal(b"content", name="a"), name="a") == b"content"
    assert SEALER.open(rotated.seal(b"content", name="a"), name="a") == b"content"
    assert refused(rotated.seal(b"content", name="a"), sealer=old)


def test_a_seal_of_another_version_does_not_open() -> None:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = bytes(12)
    raw = nonce + AESGCM(KeyRing([SECRET]).keys("session")[0]).encrypt(nonce, b"content", b"2:a")
    assert refused(base64.urlsafe_b64encode(raw).decode().rstrip("="))


@pytest.mark.parametrize(
    "weak", [["x" * 31], ["x" * 32], ["changeme" * 4], [SECRET, "short"], [], SECRET]
)
def test_weak_secrets_are_refused(weak: list[str]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        KeyRing(weak)
    assert caught.value.code is Code.CONFIGURATION_SECRET_TOO_SHORT
    assert "short" not in str(caught.value).partition(": ")[2]


@pytest.mark.parametrize("strong", [secrets.token_hex(32), "éèêëàâîï" * 2], ids=["hex", "bytes"])
def test_a_secret_counts_in_bytes_and_random_digits_are_no_repeated_word(strong: str) -> None:
    assert KeyRing([strong]).keys("session")


def test_no_secret_is_in_repr() -> None:
    assert SECRET not in repr(KeyRing([SECRET])) + repr(SEALER) + repr(vars(SEALER))
