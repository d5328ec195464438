from __future__ import annotations

import pytest

from fastapi_oidc.protocol.urls import URLFault, fault_of_url, with_query


@pytest.mark.parametrize(
    "url",
    [
        "https://op.test",
        "https://op.test:8443/realms/a%20b/token?x=1",
        "https://[2001:db8::1]/token",
        "https://op.test/" + "a" * 2032,
    ],
)
def test_an_https_url_is_fit(url: str) -> None:
    assert fault_of_url(url, allow_insecure_http=False) is None


def test_http_is_insecure_unless_allowed() -> None:
    assert fault_of_url("http://op.test/", allow_insecure_http=False) is URLFault.INSECURE
    assert fault_of_url("http://op.test/", allow_insecure_http=True) is None


@pytest.mark.parametrize(
    "url",
    [
        None,
        1,
        ["https://op.test"],
        "",
        "op.test/token",
        "//op.test/token",
        "/token",
        "ftp://op.test/",
        "javascript://op.test/%0aalert(1)",
        "https:",
        "https://",
        "https:///token",
        "https://user@op.test/",
        "https://user:secret@op.test/",
        "https://op.test/#fragment",
        "https://op.test/#",
        "https://op.test:port/",
        "https://op.test:99999/",
        "https://[::1/",
        "https://op.test\\@evil.test/",
        "https://op.test/a b",
        "https://op.test/\ttoken",
        "https://op.test/\r\nX: 1",
        "https://öp.test/",
        "https://op.test/" + "a" * 2033,
    ],
)
@pytest.mark.parametrize("allow_insecure_http", [True, False])
def test_anything_else_is_malformed(url: object, allow_insecure_http: bool) -> None:
    assert fault_of_url(url, allow_insecure_http=allow_insecure_http) is URLFault.MALFORMED


@pytest.mark.parametrize(
    ("url", "extended"),
    [
        ("https://op.test/a", "https://op.test/a?x=1+2&y=%26"),
        ("https://op.test/a?", "https://op.test/a?x=1+2&y=%26"),
        ("https://op.test/a?b=c", "https://op.test/a?b=c&x=1+2&y=%26"),
        ("https://op.test/a?b=c&", "https://op.test/a?b=c&x=1+2&y=%26"),
    ],
)
def test_a_query_is_added_or_extended(url: str, extended: str) -> None:
    assert with_query(url, {"x": "1 2", "y": "&"}) == extended
