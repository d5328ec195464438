"""Paths are normalised once (RFC 3986 6.2.2), and what servers read differently is refused."""

from __future__ import annotations

from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastapi_oidc import ConfigurationError
from fastapi_oidc.broker.limits import Refused
from fastapi_oidc.broker.paths import Pattern, normalised, readable_query

NORMALISED = {
    b"/events": "/events",
    b"/%65vents": "/events",
    b"/a%c3%a4": "/a%C3%A4",
    b"/a/./b": "/a/b",
    b"/a/../b": "/b",
    b"/a/%2e%2E/b": "/b",
    b"/../../a": "/a",
    b"/a/b/..": "/a/",
    b"/a/.": "/a/",
    b"/..": "/",
    b"/a;v=1/b,c": "/a;v=1/b,c",
}


@pytest.mark.parametrize(("raw", "path"), NORMALISED.items())
def test_a_path_is_normalised(raw: bytes, path: str) -> None:
    assert normalised(raw) == path


REFUSED = [
    b"",
    b"events",
    b"*",
    b"/a//b",
    b"//host/a",
    b"/a/..//b",
    b"/a%2fb",
    b"/a%2F..%2Fb",
    b"/a%5cb",
    b"/a\\b",
    b"/a%00",
    b"/a%0d%0ab",
    b"/a%7f",
    b"/a b",
    b"/a%",
    b"/a%2",
    b"/a%zz",
    b"/a\xc3\xa4",
    b"/a\x00",
    b"/a#b",
    b"/a?b",
    b"/%252e%252e/a",
    b"/a%252Fb",
    b"/a%255cb",
    b"/a/..;/b",
    b"/a/.;v=1/b",
    b"/a/%2e%2e;/b",
]


@pytest.mark.parametrize("raw", REFUSED)
def test_what_servers_read_differently_is_refused(raw: bytes) -> None:
    with pytest.raises(Refused, match=r"broker\.request"):
        normalised(raw)


@given(st.text(alphabet="abc./;%25eEfF0", max_size=24))
def test_a_normalised_path_stays_as_it_is_and_leads_nowhere_else(text: str) -> None:
    try:
        path = normalised(f"/{text}".encode())
    except Refused:
        return
    assert normalised(path.encode()) == path
    segments = unquote(path).split("/")[1:]
    assert not {".", ".."} & set(segments)
    assert "" not in segments[:-1]


@pytest.mark.parametrize("query", [b"", b"a=1&b=%20x", b"q[]=1", b"next=/a?b"])
def test_a_query_passes(query: bytes) -> None:
    assert readable_query(query) == query.decode()


@pytest.mark.parametrize(
    "query",
    [b"a b", b"a#b", b"a\r\nb", b"a=%", b"a=\xff", b"access_token=x", b"a;Access%5Ftoken=x"],
)
def test_a_query_that_has_a_token_or_breaks_the_grammar_is_refused(query: bytes) -> None:
    with pytest.raises(Refused, match=r"broker\.request"):
        readable_query(query)


MATCHES = [
    ("GET /events", "GET", "/events", True),
    ("GET /events", "HEAD", "/events", False),
    ("GET /events", "GET", "/events/", False),
    ("GET /events", "GET", "/Events", False),
    ("GET /events", "GET", "/events/1", False),
    ("GET /events/*", "GET", "/events/1", True),
    ("GET /events/*", "GET", "/events/", False),
    ("GET /events/*", "GET", "/events/1/2", False),
    ("GET /events/*/notes", "GET", "/events/1/notes", True),
    ("GET /files/**", "GET", "/files/a/b", True),
    ("GET /files/**", "GET", "/files", False),
    ("GET /files/**", "GET", "/files/", False),
    ("GET /files/**", "GET", "/filesystem/a", False),
    ("GET /**", "GET", "/a", True),
    ("GET /", "GET", "/", True),
    ("GET /", "GET", "/a", False),
]


@pytest.mark.parametrize(("pattern", "method", "path", "expected"), MATCHES)
def test_a_pattern_matches_normalised_paths(
    pattern: str, method: str, path: str, expected: bool
) -> None:
    assert Pattern.parse(pattern).matches(method, path) == expected


@pytest.mark.parametrize("path", ["/events", "/Events", "/events/", "/events;v=1", "/EVENTS;a/"])
def test_an_approval_is_needed_for_all_that_an_api_may_read_so(path: str) -> None:
    assert Pattern.parse("POST /events").may_mean("POST", path)


@pytest.mark.parametrize("path", ["/event", "/events/1", "/events2"])
def test_an_approval_is_needed_for_nothing_else(path: str) -> None:
    assert not Pattern.parse("POST /events").may_mean("POST", path)


@pytest.mark.parametrize(
    "text", ["/events", "GET", "GET events", "get /events", "GET /a/../b", "GET /%2e", "", None]
)
def test_a_pattern_that_could_never_match_is_refused(text: object) -> None:
    with pytest.raises(ConfigurationError, match=r"configuration\.invalid"):
        Pattern.parse(text)
