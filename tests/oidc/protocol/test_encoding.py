import json
import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from fastapi_oidc.errors import Code, ProtocolViolation
from fastapi_oidc.protocol import authorization
from fastapi_oidc.protocol.claims import TrustedIssuer
from fastapi_oidc.protocol.encoding import (
    MAX_TOKEN_LENGTH,
    CompactJWS,
    Header,
    MalformedJSON,
    decode_base64url,
    encode_base64url,
    parse_json,
    parse_json_object,
)
from fastapi_oidc.protocol.refusal import cleaned, refusal, shown, without
from fastapi_oidc.protocol.token import TokenResponse
from fastapi_oidc.protocol.urls import fault_of_url, same_origin_path
from tests.oidc.protocol.examples import each, refused
from tests.oidc.protocol.jose.keypairs import compact, segment


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


@pytest.mark.parametrize("text", [b"[]", b"1", b"null", b'"text"'])
def test_an_object_is_asked_for(text: bytes) -> None:
    with pytest.raises(MalformedJSON):
        parse_json_object(text)


def test_the_error_does_not_quote_the_text() -> None:
    with pytest.raises(MalformedJSON) as caught:
        parse_json(b'{"access_token": "hunter2"')
    assert "hunter2" not in str(caught.value)
    assert caught.value.__suppress_context__


SHARED = TrustedIssuer.of("https://op.test/common", ["*"])
CHECKS: dict[str, Callable[[str], object]] = {
    "cleaned": cleaned,
    "shown": shown,
    "without": lambda text: without(text, ["refresh", text[:7]]),
    "refused login": lambda text: authorization.AuthorizationRefused(text, text),
    "refused grant": lambda text: refusal(
        {"error": "invalid_request", "error_description": text}, 400, url="https://op.test"
    ),
    "token": lambda text: TokenResponse.read(
        json.dumps({"access_token": text, "expires_in": text, "scope": text}).encode()
    ),
    "pushed": lambda text: authorization.pushed_request_uri({"request_uri": text}),
    "compact": CompactJWS.parse,
    "challenge": authorization.code_challenge,
    "return path": lambda text: same_origin_path("/" + text, default="/"),
    "tenant": lambda text: SHARED.require({"tid": text}, Code.ID_TOKEN_ISSUER),
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


HEADER = {"alg": "RS256", "kid": "key-1", "typ": "JWT", "x5u": "https://evil.test/key"}
CLAIMS = {"sub": "alice"}


def token(header: object = HEADER, claims: object = CLAIMS) -> str:
    return compact(header, claims, lambda _message: b"signature")


def test_the_unchanged_token_is_read_and_one_with_an_algorithm_alone() -> None:
    jws = CompactJWS.parse(token())
    assert jws.header == Header("RS256", "key-1", "JWT")
    assert jws.claims() == CLAIMS
    assert jws.signature == b"signature"
    assert jws.signing_input.decode() == token().rpartition(".")[0]
    assert CompactJWS.parse(token({"alg": "ES256"})).header == Header("ES256")


MALFORMED = {
    "parts": ("", ".", "..", "a.b", token().rpartition(".")[0], token() + "."),
    "more parts": (token() + ".a.b", token() + ".a.b.c"),
    "characters": (token() + "=", token() + "\n", " " + token(), token().replace("eyJ", "eyé", 1)),
    "no object": (token(b"alg: RS256"), token(["RS256"])),
    "odd JSON": [token(b'{"alg": "RS256", "x": %b}' % odd) for odd in (b'"\\ud800"', b"NaN")],
    "algorithm": (token({}), token({"alg": None}), token({"alg": ["RS256"]})),
    "name": (token({**HEADER, "kid": 1})),
    "type": (token({**HEADER, "typ": ["JWT"]}),),
}


@pytest.mark.parametrize("text", each(MALFORMED))
def test_a_malformed_token_is_refused(text: str) -> None:
    with refused(Code.JWS_MALFORMED, ProtocolViolation):
        CompactJWS.parse(text)


def test_an_encrypted_token_is_named_in_the_log() -> None:
    with pytest.raises(ProtocolViolation, match="encrypted"):
        CompactJWS.parse("a.b.c.d.e")


@pytest.mark.parametrize("critical", [["exp"], ["b64"], [], "exp", None])
def test_no_critical_extension_is_understood(critical: object) -> None:
    with refused(Code.JWS_CRITICAL, ProtocolViolation):
        CompactJWS.parse(token({**HEADER, "crit": critical, "exp": 1}))


def test_the_size_of_a_token_is_bounded() -> None:
    room = MAX_TOKEN_LENGTH - len(token(HEADER, b""))
    longest = token(HEADER, b"a" * (room * 3 // 4))
    assert len(longest) == MAX_TOKEN_LENGTH
    CompactJWS.parse(longest)
    with refused(Code.JWS_TOO_LARGE, ProtocolViolation):
        CompactJWS.parse(longest + "A")
    with refused(Code.JWS_TOO_LARGE, ProtocolViolation):  # headers are cached
        CompactJWS.parse(token({**HEADER, "x5c": "A" * 4096}))


@pytest.mark.parametrize("payload", [b"", b"a", b"[]", b"null", b'"a"', b"\xff", b'{"exp": NaN}'])
def test_claims_are_a_json_object(payload: bytes) -> None:
    with refused(Code.JWS_CLAIMS_MALFORMED, ProtocolViolation):
        CompactJWS.parse(token(claims=payload)).claims()


def test_a_signature_has_one_text() -> None:
    loose = f"{segment(HEADER)}.{segment(CLAIMS)}.{encode_base64url(b'sig1')[:-1]}"
    CompactJWS.parse(loose + "Q")
    with refused(Code.JWS_MALFORMED, ProtocolViolation):
        CompactJWS.parse(loose + "R")


def test_nothing_but_the_header_shows() -> None:
    jws = CompactJWS.parse(token())
    assert repr(jws) == ("CompactJWS(header=Header(alg='RS256', kid='key-1', typ='JWT'))")


EXAMPLES = [(b"", ""), (b"\x00", "AA"), (b"\xfb\xff", "-_8"), (b"abc", "YWJj"), (b"abcd", "YWJjZA")]


@pytest.mark.parametrize(("octets", "text"), EXAMPLES)
def test_octets_have_one_text(octets: bytes, text: str) -> None:
    assert encode_base64url(octets) == text
    assert decode_base64url(text) == octets


NOT_BASE64URL = {
    "length": ("A", "AAAAA"),
    "padding": ("AA==", "YWJjZA==", "YWJj====", "="),
    "ordinary base64": ("+/8", "AA+A", "AA/A", "YWJj++++"),
    "character": ("YW Jj", "YWJj\n", "YW.J", "é", "AAé", "\ud800AA"),
}


@pytest.mark.parametrize("text", each(NOT_BASE64URL))
def test_foreign_characters_padding_and_lengths_are_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  (which one is the decoder's affair)
        decode_base64url(text)
