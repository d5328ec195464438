"""Which cookies of a request are ours, and what reading them costs."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastapi_oidc.session.cookies import CookieNames
from fastapi_oidc.web.requests import own_cookies
from tests.oidc.protocol.examples import each

NAMES = CookieNames("oidc", secure=True)
SESSION = "__Host-oidc_session"
LOGIN = "__Host-oidc_login_" + "0" * 32


def read(*lines: str) -> dict[str, str]:
    return own_cookies([(b"cookie", line.encode("latin-1")) for line in lines], NAMES)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (f"{SESSION}=abc", {SESSION: "abc"}),
        (f"theme=dark; {SESSION}=abc; {LOGIN}=def", {SESSION: "abc", LOGIN: "def"}),
        (f"theme=dark;{SESSION} = abc ", {SESSION: "abc"}),
        (f'{SESSION}="abc"', {SESSION: "abc"}),
        (f'{SESSION}="abc', {SESSION: '"abc'}),
        (f'{SESSION}="', {SESSION: '"'}),
        (f'{SESSION}="a\\"b\\101"', {SESSION: 'a\\"b\\101'}),
        (f"{SESSION}=a=b", {SESSION: "a=b"}),
        (f"{SESSION}=", {SESSION: ""}),
        (SESSION, {SESSION: ""}),
        (f"{SESSION}=first; {SESSION}=last", {SESSION: "last"}),
    ],
)
def test_ours_are_read(line: str, found: dict[str, str]) -> None:
    assert read(line) == found


OTHERS = {
    "none": ("", ";;;", "=abc"),
    "of another name": ("oidc_session=abc", f"x{SESSION}=abc", f"{SESSION}x=abc"),
    "of another instance": ("__Host-partners_session=abc",),
    "of no login": ("__Host-oidc_login_=abc",),
    "behind another space": (f"\xa0{SESSION}=abc",),
}


@pytest.mark.parametrize("line", each(OTHERS))
def test_others_are_not(line: str) -> None:
    assert read(line) == {}


def test_a_cookie_header_may_come_in_pieces() -> None:
    assert read("theme=dark", f"{SESSION}=abc", f"{LOGIN}=def") == {SESSION: "abc", LOGIN: "def"}
    assert own_cookies([(b"x-cookie", SESSION.encode() + b"=abc")], NAMES) == {}


@given(st.text(alphabet=st.characters(max_codepoint=255)))
def test_any_text_is_read_without_an_error(line: str) -> None:
    assert set(read(line)) <= {SESSION, LOGIN}


@pytest.mark.parametrize("piece", ['\\"', "\\", "\\1", "\\101", '"', "=", ";", "; ", " "])
def test_no_text_of_a_stranger_costs_more_than_its_length(piece: str) -> None:
    """CVE-2024-7592: unquoting a text of escapes took seconds for 60 kB."""
    line = f'{SESSION}="{piece * (60_000 // len(piece))}"'
    before = time.process_time()
    read(line)
    assert time.process_time() - before < 0.5
