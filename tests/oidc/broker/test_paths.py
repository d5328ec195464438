"""Paths are normalised once (RFC 3986 6.2.2), and what servers read differently is refused."""

from urllib.parse import unquote

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastapi_oidc import ConfigurationError
from fastapi_oidc.broker import Refused
from fastapi_oidc.broker.route import normalised, pattern_of, query_of

NORMALISED = {
    b"/events": "/events",
    b"/%65vents": "/events",
    b"/a%c3%a4": "/a%C3%A4",
    b"/a/./b": "/a/b",
    b"/a/../b": "/b",
    b"/a/%2e%2E/b": "/b",
    b"/../../a": "/a",
    b"/a/b/..": "/a/",
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


MATCHES = [
    ("GET /events", "GET /events", True),
    ("GET /events", "HEAD /events", False),
    ("GET /events", "GET /events/", False),
    ("GET /events", "GET /Events", False),
    ("GET /a.c", "GET /abc", False),
    ("GET /events/*", "GET /events/1/2", False),
    ("GET /events/*/notes", "GET /events/1/notes", True),
    ("GET /files/**", "GET /files/a/b", True),
    ("GET /files/**", "GET /files/", False),
    ("GET /files/*.pdf", "GET /files/a.pdf", True),
    ("GET /*/notes/**", "GET /a/notes/b/c", True),
]


@pytest.mark.parametrize(("listed", "call", "expected"), MATCHES)
def test_calls_are_matched_as_normalised(listed: str, call: str, expected: bool) -> None:
    assert (pattern_of(["PUT /other", listed]).fullmatch(call) is not None) == expected
    assert not pattern_of(["PUT /other"]).fullmatch(call)
    assert not pattern_of([]).fullmatch(call)


def test_a_path_is_not_read_in_each_of_its_divisions() -> None:
    """With backtracking this would take longer than anybody waits."""
    pattern = pattern_of([f"GET /{'*a/' * 9}*b/**", "GET /*aaaa/b"])
    for path in ("a" * 900 + "/") * 9, "a" * 8000:
        assert not pattern.fullmatch(f"GET /{path}")


@pytest.mark.parametrize("query", ["", "a=1&b=%20x", "q[]=1", "next=/a?b", "access_token[]="])
def test_a_query_passes(query: str) -> None:
    assert query_of(query.encode()) == (query and f"?{query}")


@pytest.mark.parametrize(
    "query",
    ["access_token=x", "a=1&access%5Ftoken=x", "access_token", "delete=all#&dry_run=1", "a=\xe4"],
)
def test_a_query_that_has_a_token_or_would_not_be_sent_is_refused(query: str) -> None:
    with pytest.raises(Refused, match=r"broker\.request"):
        query_of(query.encode())


@pytest.mark.parametrize(
    "text",
    [
        *["/events", "GET", "GET events", "get /events", "GET /a/../b", "GET /%2e", ""],
        *["TRACE /events", "CONNECT /events", "GET /a%2Fb", "GET /**/b", "GET /*b*", "GET /a**"],
    ],
)
def test_a_call_that_could_never_match_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"configuration\.invalid"):
        pattern_of([text])
