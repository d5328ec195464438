from itertools import product

import pytest

from fastapi_oidc.errors import Code, ProtocolViolation
from fastapi_oidc.protocol.encoding import (
    MAX_TOKEN_LENGTH,
    CompactJWS,
    decode_base64url,
    encode_base64url,
)
from tests.oidc.protocol.examples import each, refused
from tests.oidc.protocol.jose.keypairs import compact, segment

HEADER = {"alg": "RS256", "kid": "key-1", "typ": "JWT", "x5u": "https://evil.test/key"}
CLAIMS = {"sub": "alice"}


def token(header: object = HEADER, claims: object = CLAIMS) -> str:
    return compact(header, claims, lambda _message: b"signature")


def test_the_unchanged_token_is_read_and_one_with_an_algorithm_alone() -> None:
    jws = CompactJWS.parse(token())
    assert (jws.algorithm, jws.kid, jws.typ) == ("RS256", "key-1", "JWT")
    assert jws.claims() == CLAIMS
    assert jws.signature == b"signature"
    assert jws.signing_input.decode() == token().rpartition(".")[0]
    least = CompactJWS.parse(token({"alg": "ES256"}))
    assert (least.algorithm, least.kid, least.typ) == ("ES256", None, None)


MALFORMED = {
    "parts": ("", ".", "..", "a.b", token().rpartition(".")[0], token() + "."),
    "more parts": (token() + ".a.b", token() + ".a.b.c"),
    "characters": (token() + "=", token() + "\n", " " + token(), token().replace("eyJ", "eyé", 1)),
    "no object": (token(b"alg: RS256"), token(["RS256"])),
    "odd JSON": (token(b'{"alg": "RS256", "x": NaN}'),),
    "algorithm": (token({}), token({"alg": None}), token({"alg": ["RS256"]})),
    "name": (token({**HEADER, "kid": None}), token({**HEADER, "kid": 1})),
    "type": (token({**HEADER, "typ": ["JWT"]}),),
    "size": (token({**HEADER, "padding": "a" * 4096}),),
}


@pytest.mark.parametrize("text", each(MALFORMED))
def test_a_malformed_token_is_refused(text: str) -> None:
    with refused(Code.JWS_MALFORMED, ProtocolViolation):
        CompactJWS.parse(text)


def test_an_encrypted_token_is_named_in_the_log() -> None:
    with pytest.raises(ProtocolViolation, match="encrypted"):
        CompactJWS.parse("a.b.c.d.e")


@pytest.mark.parametrize("critical", [["exp"], ["b64"], [], None, "exp"])
def test_no_critical_extension_is_understood(critical: object) -> None:
    with refused(Code.JWS_CRITICAL, ProtocolViolation):
        CompactJWS.parse(token({**HEADER, "crit": critical, "exp": 1}))


def test_the_size_is_bounded() -> None:
    room = MAX_TOKEN_LENGTH - len(token(HEADER, b""))
    longest = token(HEADER, b"a" * (room * 3 // 4))
    assert len(longest) == MAX_TOKEN_LENGTH
    CompactJWS.parse(longest)
    with refused(Code.JWS_TOO_LARGE, ProtocolViolation):
        CompactJWS.parse(longest + "A")


def test_the_header_is_bounded_too() -> None:
    def header(size: int) -> bytes:
        empty = '{"alg": "RS256", "x": ""}'
        return empty.replace('""', f'"{"a" * (size - len(empty))}"').encode()

    CompactJWS.parse(token(header(4096)))
    with refused(Code.JWS_MALFORMED, ProtocolViolation):
        CompactJWS.parse(token(header(4097)))


@pytest.mark.parametrize(
    "payload",
    [b"", b"text", b"[]", b"null", b'"sub"', b"\xff", b'{"exp": NaN}'],
)
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
    assert repr(jws) == "CompactJWS(algorithm='RS256', kid='key-1', typ='JWT')"


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


def test_every_text_of_two_characters_is_read_as_it_would_be_written() -> None:
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    readable = [text for text in map("".join, product(alphabet, repeat=2)) if is_readable(text)]
    assert readable == sorted(
        (encode_base64url(bytes([octet])) for octet in range(256)),
        key=lambda text: [alphabet.index(character) for character in text],
    )


def is_readable(text: str) -> bool:
    try:
        decode_base64url(text)
    except ValueError:
        return False
    return True
