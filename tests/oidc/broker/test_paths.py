"""Paths are normalised once (RFC 3986 6.2.2), and what servers read differently is refused."""

from typing import Any
from urllib.parse import unquote

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastapi_oidc import ConfigurationError
from fastapi_oidc.broker import Refused, Route
from fastapi_oidc.broker.paths import normalised, readable_query, require_call

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
REFUSED = (
    b" events * /a//b //host/a /a/..//b /a%2fb /a%2F..%2Fb /a%5cb /a\\b /a%00 /a%0d%0ab /a%7f /a% "
    b"/a%2 /a%zz /a\xc3\xa4 /a\x00 /a#b /a?b /%252e%252e/a /a%252Fb /a%255cb /a/..;/b /a/.;v=1/b "
    b"/a/%2e%2e;/b /..;"
)


@pytest.mark.parametrize(("raw", "path"), NORMALISED.items())
def test_a_path_is_normalised(raw: bytes, path: str) -> None:
    assert normalised(raw) == path


@pytest.mark.parametrize("raw", [*REFUSED.split(b" "), b"/a b"])
def test_what_servers_read_differently_is_refused(raw: bytes) -> None:
    with pytest.raises(Refused, match=r"broker\.request"):
        normalised(raw)


@given(st.text(alphabet="abc./;:@%25eEfF0", max_size=24))
def test_a_normalised_path_stays_as_it_is_and_is_sent_so(text: str) -> None:
    try:
        path = normalised(f"/{text}".encode())
    except Refused:
        return
    assert normalised(path.encode()) == path
    segments = unquote(path).split("/")[1:]
    assert not {".", ".."} & set(segments)
    assert "" not in segments[:-1]
    assert httpx.URL(f"https://calendar.test{path}").raw_path == path.encode()


@given(st.text(alphabet=[chr(code) for code in range(33, 127)], max_size=24))
def test_a_query_is_sent_as_it_is_or_refused(text: str) -> None:
    try:
        query = readable_query(text.encode())
    except Refused:
        return
    assert httpx.URL(f"https://calendar.test/a?{query}").raw_path == f"/a?{text}".encode()


@pytest.mark.parametrize(
    "query", [b"", b"a=1&b=%20x", b"q[]=1", b"next=/a?b", b"method=a", b"access_token[]="]
)
def test_a_query_passes(query: bytes) -> None:
    assert readable_query(query) == query.decode()


@pytest.mark.parametrize(
    "query",
    [
        *[b"a b", b"a#b", b"a\r\nb", b"a=%", b"a=\xff", b"access_token=x", b"a;Access%5Ftoken=x"],
        *[b"access.token=x", b"%20access_token=x", b"+access_token=x", b"_method=DELETE"],
        b"access_token=x=y",
    ],
)
def test_a_query_that_has_a_token_or_breaks_the_grammar_is_refused(query: bytes) -> None:
    with pytest.raises(Refused, match=r"broker\.request"):
        readable_query(query)


def route(*calls: str) -> Route:
    return Route(url="https://calendar.test", allow=calls, approve=calls, own_token=True)


MATCHES = [
    ("GET /events", "GET /events", True),
    ("GET /events", "HEAD /events", False),
    ("GET /events", "GET /events/", False),
    ("GET /events", "GET /Events", False),
    ("GET /events", "GET /events/1", False),
    ("GET /a.c", "GET /abc", False),
    ("GET /events/*", "GET /events/1", True),
    ("GET /events/*", "GET /events/", False),
    ("GET /events/*", "GET /events/1/2", False),
    ("GET /events/*/notes", "GET /events/1/notes", True),
    ("GET /files/**", "GET /files/a/b", True),
    ("GET /files/**", "GET /files", False),
    ("GET /files/**", "GET /files/", False),
    ("GET /files/**", "GET /filesystem/a", False),
    ("GET /**", "GET /a", True),
    ("GET /", "GET /", True),
    ("GET /", "GET /a", False),
]


@pytest.mark.parametrize(("listed", "call", "expected"), MATCHES)
def test_calls_are_matched_as_normalised(listed: str, call: str, expected: bool) -> None:
    assert route("PUT /other", listed).allows(*call.split(" ")) == expected
    assert not route("PUT /other").allows(*call.split(" "))


@pytest.mark.parametrize(
    "path",
    [
        *["/events", "/Events", "/events/", "/events;v=1", "/EVENTS;a/", "/events%3Bv=1"],
        *["/events.json", "/%2565vents", "/events.", "/events%20/", "/events/%20"],
    ],
)
def test_an_approval_is_needed_for_all_that_an_api_may_read_so(path: str) -> None:
    assert route("POST /events").needs_approval("POST", path)


@pytest.mark.parametrize("path", ["/event", "/events/1", "/events2", "/", "/events.d/1"])
def test_an_approval_is_needed_for_nothing_else(path: str) -> None:
    assert not route("POST /events").needs_approval("POST", path)
    assert not route("PUT /other").needs_approval("POST", path)


@pytest.mark.parametrize(
    "text",
    [
        *["/events", "GET", "GET events", "get /events", "GET /a/../b", "GET /%2e", "", None],
        *["GET /events*", "GET /*x", "GET /**x", "GET /***", "GET /**/notes"],
        *["TRACE /events", "CONNECT /events", "GET /a%2Fb"],
    ],
)
def test_a_call_that_could_never_match_is_refused(text: object) -> None:
    with pytest.raises(ConfigurationError, match=r"configuration\.invalid"):
        require_call(text)


@pytest.mark.parametrize(
    ("approve", "is_possible"),
    [
        ("POST /event", False),
        ("GET /events", False),
        ("POST /events/1/2", False),
        ("POST /events", True),
        ("POST /EVENTS/", True),
        ("POST /events/*", True),
        ("POST /files/a/b", True),
        ("POST /files", False),
        ("POST /**", True),
    ],
)
def test_an_approval_of_what_is_not_allowed_is_refused(approve: str, is_possible: bool) -> None:
    allow = ("POST /events", "POST /events/1", "POST /files/**")
    options: dict[str, Any] = {"url": "https://calendar.test", "allow": allow, "own_token": True}
    if is_possible:
        assert Route(approve=[approve], **options).approve == [approve]
        return
    with pytest.raises(ConfigurationError, match="matches no call of allow"):
        Route(approve=[approve], **options)


def test_an_approval_of_one_format_is_not_one_of_another() -> None:
    report = route("GET /report.pdf")
    assert report.needs_approval("GET", "/report.PDF")
    assert not report.needs_approval("GET", "/report.csv")


def test_a_route_without_calls_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="allow is empty, so no call could pass"):
        route()
