from __future__ import annotations

from itertools import product

import pytest

from fastapi_oidc.protocol.jose import base64url

EXAMPLES = [(b"", ""), (b"\x00", "AA"), (b"\xfb\xff", "-_8"), (b"abc", "YWJj"), (b"abcd", "YWJjZA")]


@pytest.mark.parametrize(("octets", "text"), EXAMPLES)
def test_octets_have_one_text(octets: bytes, text: str) -> None:
    assert base64url.encode(octets) == text
    assert base64url.decode(text) == octets


@pytest.mark.parametrize(
    "text",
    [
        "A",
        "AAAAA",
        "AA==",
        "YWJjZA==",
        "+/8",
        "AA+A",
        "AA/A",
        "YWJj++++",
        "YWJj====",
        "YW Jj",
        "YWJj\n",
        "YW.J",
        "é",
        "AAé",
        "\ud800AA",
        "=",
    ],
)
def test_foreign_characters_padding_and_lengths_are_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  (which one is the decoder's affair)
        base64url.decode(text)


def test_every_text_of_two_characters_is_read_as_it_would_be_written() -> None:
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    readable = [text for text in map("".join, product(alphabet, repeat=2)) if is_readable(text)]
    assert readable == sorted(
        (base64url.encode(bytes([octet])) for octet in range(256)),
        key=lambda text: [alphabet.index(character) for character in text],
    )


def is_readable(text: str) -> bool:
    try:
        base64url.decode(text)
    except ValueError:
        return False
    return True
