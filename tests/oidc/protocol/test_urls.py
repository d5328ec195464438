import httpx
import pytest

from fastapi_oidc.errors import Code, ConfigurationError
from fastapi_oidc.protocol.metadata import discovery_url, require_issuer_url
from fastapi_oidc.protocol.urls import (
    fault_of_url,
    is_same_origin_path,
    same_origin_path,
    with_query,
)
from tests.oidc.protocol.examples import each, refused


@pytest.mark.parametrize(
    "address",
    [
        *("op.test", "op.test:8443/realms/a%20b/token?x=1", "op.test/" + "a" * 2032),
        *("OP.test/XYZ/-._~:[]@!$&'()*+,;=%2F?X=Y/?", "op.test:65535/", "op.test:/", "op.test./"),
        *("[2001:db8::1]/token", "[::ffff:127.0.0.1]:1", "xn--mnchen-3ya.example", "127.0.0.1:1"),
        *("localhost", "my_host.internal"),
    ],
)
def test_an_https_url_is_fit(address: str) -> None:
    assert fault_of_url(f"https://{address}", allow_insecure_http=False) is None
    assert httpx.URL(f"https://{address}").host


def test_http_is_insecure_unless_allowed() -> None:
    assert (
        fault_of_url("http://op.test/", allow_insecure_http=False)
        is Code.CONFIGURATION_INSECURE_URL
    )
    assert fault_of_url("http://op.test/", allow_insecure_http=True) is None


MALFORMED = {
    "no text": (None, 1, ["https://op.test"], ""),
    "no scheme": ("op.test/token", "//op.test/token", "/token"),
    "another scheme": ("ftp://op.test/", "javascript://op.test/%0aalert(1)"),
    "no host": ("https:", "https://", "https:///token", "https://[::1/"),
    "a user": ("https://user@op.test/", "https://user:secret@op.test/"),
    "a fragment": ("https://op.test/#fragment", "https://op.test/#"),
    "a port": ("https://op.test:port/", "https://op.test:65536/", "https://op.test:+1/"),
    "no name": ("https://:443/", "https://[]/", "https://[v1.a]/", "https://[::1]x/"),
    "an address": ("https://999.1.1.1/", "https://op.999/", "https://[fe80::1%25eth0]/"),
    "punycode": ("https://xn--a.test/", "https://a.xn--a.test/"),
    "a character": ("https://op.test/a b", "https://op.test/\ttoken", "https://öp.test/"),
    "a name": ("https://op%2etest/", "https://op|test/", "https://op;test/"),
    "a line": ("https://op.test/\r\nX: 1",),
    "a backslash": ("https://op.test\\@evil.test/",),
    "too long": ("https://op.test/" + "a" * 2033,),
}


@pytest.mark.parametrize("url", each(MALFORMED))
@pytest.mark.parametrize("allow_insecure_http", [True, False])
def test_anything_else_is_malformed(url: object, allow_insecure_http: bool) -> None:
    assert fault_of_url(url, allow_insecure_http=allow_insecure_http) is Code.CONFIGURATION_INVALID


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


@pytest.mark.parametrize(
    ("issuer", "url"),
    [
        ("https://op.test", "https://op.test/.well-known/openid-configuration"),
        ("https://op.test/", "https://op.test/.well-known/openid-configuration"),
        ("https://op.test/a/", "https://op.test/a/.well-known/openid-configuration"),
        ("https://op.test/a//", "https://op.test/a//.well-known/openid-configuration"),
    ],
)
def test_one_final_slash_is_dropped_for_discovery(issuer: str, url: str) -> None:
    assert discovery_url(issuer) == url


def test_an_http_issuer_must_be_allowed() -> None:
    with refused(Code.CONFIGURATION_INSECURE_URL, ConfigurationError):
        require_issuer_url("http://localhost:9400", allow_insecure_http=False)
    assert require_issuer_url("http://localhost:9400", allow_insecure_http=True)


@pytest.mark.parametrize(
    "issuer", ["", "https://op.999", "https://op.test?a=b", "https://op.test#a"]
)
def test_an_issuer_that_cannot_be_one_is_refused(issuer: str) -> None:
    with refused(Code.CONFIGURATION_INVALID, ConfigurationError):
        require_issuer_url(issuer, allow_insecure_http=False)


@pytest.mark.parametrize("end", ["", "/", "//"])
def test_the_address_of_the_metadata_is_no_issuer(end: str) -> None:
    issuer = f"https://op.test/a/.well-known/openid-configuration{end}"
    with refused(Code.CONFIGURATION_INVALID, ConfigurationError):
        require_issuer_url(issuer, allow_insecure_http=False)
    assert require_issuer_url(f"{issuer}X", allow_insecure_http=False) == f"{issuer}X"


@pytest.mark.parametrize(
    "path",
    [
        *("/", "/a", "/a/", "/a/b.html", "/a/.well-known/x"),
        *("/a?next=https%3A%2F%2Fother.test%2F&x=//y", "/search?q=a%20b#part"),
        *("/~me/a;b=c/@d:e", "/caf%C3%A9", "/" + "a" * 999),
    ],
)
def test_a_path_of_this_origin_is_accepted(path: str) -> None:
    assert same_origin_path(path, default="/home") == path


FOREIGN = {
    "no text": (None, 1, b"/a", ["/a"]),
    "no path": ("", "a", "evil.test", "?a=b", "#a"),
    "another host": ("//evil.test", "///evil.test", "/a//b", "/.//evil.test", "/..//evil.test"),
    "a backslash": ("/\\evil.test", "\\\\evil.test", "\\/evil.test", "/a\\b", "/./\\evil.test"),
    "an encoded slash": ("/%2fevil.test", "/%5cevil.test", "/%5C/evil.test", "/a?b=c\\d"),
    "a white space": ("/%09/evil.test", "/\t/evil.test", "/\r/evil.test", "/\n/evil.test"),
    "a space": ("/ /evil.test", " /a", "/a ", "\t/a"),
    "a dot segment": ("/./evil.test", "/../evil.test", "/a/..", "/%2e%2e/a.test", "/%2E/evil.test"),
    "a URL": ("https:evil.test", "https:/evil.test", "https://evil.test"),
    "another URL": ("https://own.test@evil.test", "javascript:alert(1)", "data:text/html,x"),
    "a control character": ("\x00/a", "/a\x00", "/a\x7f", "/a%00", "/a%7F"),
    "a line": ("/a%0d%0aSet-Cookie:%20a=b", "/a%0ab", "/a?b=%0D"),
    "another alphabet": ("/é", "/\u2028a", "/\ud800"),
    "too long": ("/" + "a" * 1000,),
}


@pytest.mark.parametrize("path", each(FOREIGN))
def test_anything_else_becomes_the_default(path: object) -> None:
    assert not is_same_origin_path(path)
    assert same_origin_path(path, default="/home") == "/home"


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ("https://own.test/a?b=c", "/a?b=c"),
        ("https://own.test", "/home"),
        ("https://own.test.evil.test/a", "/home"),
        ("https://own.test@evil.test/a", "/home"),
        ("https://own.test//evil.test", "/home"),
        ("https://own.testhttps://own.test/a", "/home"),
        ("http://own.test/a", "/home"),
        ("/a", "/a"),
    ],
)
def test_a_url_of_this_origin_is_its_path(value: str, path: str) -> None:
    assert same_origin_path(value, default="/home", origin="https://own.test") == path
    assert same_origin_path(value, default="/home") == (path if value == path else "/home")
