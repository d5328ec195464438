import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from fastapi_oidc.protocol.authorization import (
    AuthorizationRefused,
    code_challenge,
    pushed_request_uri,
)
from fastapi_oidc.protocol.encoding import CompactJWS, MalformedJSON, parse_json, parse_json_object
from fastapi_oidc.protocol.metadata import tenant_of
from fastapi_oidc.protocol.refusal import cleaned, refusal, shown, without
from fastapi_oidc.protocol.token import TokenResponse
from fastapi_oidc.protocol.urls import fault_of_url, same_origin_path
from tests.oidc.protocol.examples import each


def test_only_json_whitespace_may_surround_it() -> None:
    assert parse_json(b" \t\r\n{} \t\r\n") == {}


def test_json_is_read() -> None:
    text = '{"a": [1, -2.5e3, "é", null, true], "b": {"c": "\\u00e9\\ud83d\\ude00"}}'
    assert parse_json(text.encode()) == {"a": [1, -2500.0, "é", None, True], "b": {"c": "é😀"}}


NO_JSON = {
    "syntax": (b"", b"{", b"{'a': 1}", b'{"a": 1} {"a": 1}', b'"a\nb"'),
    "white space": (b"\x0b{}", b"{}\x0c", "{}\xa0".encode()),
    "encoding": (b"\xff", b"\xef\xbb\xbf{}", '{"a": 1}'.encode("utf-16")),
    "a number": (b"NaN", b"[-Infinity]", b"1" * 5000, b'{"a": [-1e400]}'),
    "a surrogate": (b'"\\ud800"', b'{"\\udfff": 1}'),
    "depth": (b"[" * 100_000, b'{"a":' * 100_000),
}


@pytest.mark.parametrize("text", each(NO_JSON))
def test_anything_else_is_refused(text: bytes) -> None:
    with pytest.raises(MalformedJSON):
        parse_json(text)


def test_of_a_repeated_member_the_last_one_counts() -> None:
    """RFC 7515 4, RFC 7519 4."""
    assert parse_json(b'{"a": 1, "\\u0061": 2}') == {"a": 2}


def test_the_size_is_bounded() -> None:
    assert parse_json(b'"four"', max_bytes=6) == "four"
    with pytest.raises(MalformedJSON):
        parse_json(b'"four"', max_bytes=5)


def test_an_escaped_backslash_before_u_is_no_surrogate() -> None:
    assert parse_json(rb'"\\ud800"') == r"\ud800"


@pytest.mark.parametrize("text", [b"[]", b"1", b"null", b'"text"'])
def test_an_object_is_asked_for(text: bytes) -> None:
    with pytest.raises(MalformedJSON):
        parse_json_object(text)


def test_the_error_does_not_quote_the_text() -> None:
    with pytest.raises(MalformedJSON) as caught:
        parse_json(b'{"access_token": "hunter2"')
    assert "hunter2" not in str(caught.value)
    assert caught.value.__suppress_context__


CHECKS: dict[str, Callable[[str], object]] = {
    "cleaned": cleaned,
    "shown": shown,
    "without": lambda text: without(text, ["refresh", text[:7]]),
    "refused login": lambda text: AuthorizationRefused(text, text, (text,)),
    "refused grant": lambda text: refusal(
        {"error": "invalid_request", "error_description": text}, 400, url="https://op.test"
    ),
    "token": lambda text: TokenResponse.parse(
        {"access_token": text, "token_type": "Bearer", "expires_in": text, "scope": text}
    ),
    "pushed": lambda text: pushed_request_uri({"request_uri": text}),
    "compact": CompactJWS.parse,
    "challenge": code_challenge,
    "return path": lambda text: same_origin_path("/" + text, default="/"),
    "tenant": lambda text: tenant_of({"tid": text}),
    "url": lambda text: fault_of_url("https://" + text, allow_insecure_http=False),
}
PIECES = ["refresh token ", "a", "a.", "a-", "%0", "[", ":", "/../", "\\", " ", "0"]


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS.keys())
def test_a_long_text_is_checked_in_no_time(check: Callable[[str], object]) -> None:
    """A pattern that backtracks needs seconds for 400,000 characters, a linear one milliseconds."""
    for piece in PIECES:
        text = piece * (400_000 // len(piece))
        began = time.process_time()
        with suppress(Exception):
            check(text)
        assert time.process_time() - began < 0.5, piece
