from __future__ import annotations

import pytest

from fastapi_oidc.protocol.return_path import is_same_origin_path, same_origin_path


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/a",
        "/a/",
        "/a/b.html",
        "/a/.well-known/x",
        "/a?next=https%3A%2F%2Fother.test%2F&x=//y",
        "/search?q=a%20b#part",
        "/~me/a;b=c/@d:e",
        "/caf%C3%A9",
        "/" + "a" * 999,
    ],
)
def test_a_path_of_this_origin_is_accepted(path: str) -> None:
    assert same_origin_path(path, default="/home") == path


@pytest.mark.parametrize(
    "path",
    [
        None,
        1,
        b"/a",
        ["/a"],
        "",
        "a",
        "evil.test",
        "//evil.test",
        "///evil.test",
        "/\\evil.test",
        "\\\\evil.test",
        "\\/evil.test",
        "/a\\b",
        "/%09/evil.test",
        "/\t/evil.test",
        "/\r/evil.test",
        "/\n/evil.test",
        "/ /evil.test",
        "/./\\evil.test",
        "/.//evil.test",
        "/..//evil.test",
        "/./evil.test",
        "/../evil.test",
        "/a/..",
        "/%2e%2e/evil.test",
        "/%2E/evil.test",
        "/%2fevil.test",
        "/%5cevil.test",
        "/%5C/evil.test",
        "/a//b",
        "https:evil.test",
        "https:/evil.test",
        "https://evil.test",
        "https://own.test@evil.test",
        "javascript:alert(1)",
        "data:text/html,x",
        " /a",
        "/a ",
        "\t/a",
        "\x00/a",
        "/a\x00",
        "/a\x7f",
        "/a%0d%0aSet-Cookie:%20a=b",
        "/a%0ab",
        "/a%00",
        "/a%7F",
        "/a?b=%0D",
        "/a?b=c\\d",
        "/é",
        "/\u2028a",
        "/\ud800",
        "?a=b",
        "#a",
        "/" + "a" * 1000,
    ],
)
def test_anything_else_becomes_the_default(path: object) -> None:
    assert not is_same_origin_path(path)
    assert same_origin_path(path, default="/home") == "/home"
