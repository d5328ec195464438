from __future__ import annotations

from typing import Any

import pytest

from fastapi_oidc.errors import Code, ConfigurationError
from fastapi_oidc.session.cookies import CookieChange, CookieNames


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


def test_the_value_is_not_in_repr() -> None:
    assert "abc" not in repr(CookieChange(name="a", value="abc"))


@pytest.mark.parametrize("text", ["a;b", "a\r\nSet-Cookie: b", "a b", "é", "a,b", 'a"', "a=b"])
def test_a_name_or_value_cannot_add_to_the_header(text: str) -> None:
    with pytest.raises(ValueError, match="not allowed"):
        CookieChange(name=text, value="abc")
    with pytest.raises(ValueError, match="not allowed"):
        CookieChange(name="a", value=text)


def test_names_over_https_have_the_host_prefix() -> None:
    names = CookieNames("oidc", secure=True)
    assert (names.session, names.logout) == ("__Host-oidc_session", "__Host-oidc_logout")
    assert names.transaction("state-1").startswith("__Host-oidc_login_")


def test_names_over_plain_http_have_none() -> None:
    assert CookieNames("oidc", secure=False).session == "oidc_session"


def test_the_name_of_a_transaction_does_not_give_its_state_away() -> None:
    names = CookieNames("oidc", secure=True)
    assert "state-1" not in names.transaction("state-1")
    assert names.transaction("state-1") != names.transaction("state-2")
    assert names.is_transaction(names.transaction("state-1"))


@pytest.mark.parametrize("state", ["\ud800", "é", "", "x" * 10_000])
def test_any_state_has_a_name(state: str) -> None:
    names = CookieNames("oidc", secure=True)
    assert names.is_transaction(names.transaction(state))


@pytest.mark.parametrize("prefix", ["", "a b", "a;b", "é", "x" * 21, "a=b"])
def test_a_prefix_that_is_no_cookie_name_is_refused(prefix: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        CookieNames(prefix, secure=True)
    assert caught.value.code is Code.CONFIGURATION_INVALID


@pytest.mark.parametrize("secure", [True, False])
def test_an_instance_knows_its_own_cookies_from_others(secure: bool) -> None:
    names = CookieNames("oidc", secure=secure)
    others = CookieNames("oidc2", secure=secure)
    for name in (names.session, names.logout, names.transaction("state-1")):
        assert names.is_ours(name)
        assert not others.is_ours(name)
    for name in ("", "theme", names.session + "2", names.transaction_prefix, "oidc_login_"):
        assert not names.is_ours(name)


@pytest.mark.parametrize(
    "digest", ["X" + "0" * 31, "0" * 31 + "X", "0" * 31 + "F", "0" * 31, "0" * 33]
)
def test_a_login_is_named_by_32_hexadecimal_digits(digest: str) -> None:
    names = CookieNames("oidc", secure=True)
    assert names.is_transaction(names.transaction_prefix + "0" * 32)
    assert not names.is_transaction(names.transaction_prefix + digest)


def test_a_prefix_has_twenty_characters_at_the_most() -> None:
    assert CookieNames("a" * 20, secure=False).session == "a" * 20 + "_session"
