"""Words and values of somebody else in a log line: short, printable, without secrets."""

from __future__ import annotations

import pytest

from fastapi_oidc.protocol.error_text import (
    LARGEST_NUMBER,
    MAX_TEXT,
    MAX_VALUE,
    cleaned,
    shown,
    without,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "missing"),
        ("https://op.test/", "'https://op.test/'"),
        ("a\nb", r"'a\nb'"),
        (True, "True"),
        (1.5, "1.5"),
        (LARGEST_NUMBER - 1, "999999999999999999"),
        (LARGEST_NUMBER, "a large number"),
        (-LARGEST_NUMBER, "a large number"),
        (["a", None, 1], "['a', missing, 1]"),
        (("a", ["b"]), "['a', ['b']]"),
        (["a"] * 6, "['a', 'a', 'a', 'a', 'a']"),
        ({"a": 1}, "a JSON object"),
    ],
)
def test_each_kind_of_value_has_its_text(value: object, text: str) -> None:
    assert shown(value) == text


def test_a_text_is_cut_before_and_after_it_is_escaped() -> None:
    assert cleaned("a" * (MAX_TEXT + 1)) == "a" * MAX_TEXT
    assert cleaned("\n" * MAX_TEXT) == r"\n" * (MAX_TEXT // 2)
    assert shown("a" * (MAX_VALUE + 1)) == f"'{'a' * MAX_VALUE}'"


def test_what_a_terminal_or_a_log_interprets_is_escaped() -> None:
    assert cleaned("\x1b[2J\r\n\u202e\\\ud800\xfc <b>") == r"\x1b[2J\r\n\u202e\\\ud800\xfc <b>"


@pytest.mark.parametrize(
    ("secret", "text"), [("123456", "it was [...]."), ("12345", "it was 123456.")]
)
def test_a_secret_of_six_characters_is_taken_out(secret: str, text: str) -> None:
    assert without("it was 123456.", [secret]) == text
