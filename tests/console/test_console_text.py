"""What a guest writes, as text with colours and without what moves a cursor."""

from __future__ import annotations

import pytest

from examples.console.console_text import ConsoleText
from examples.console.pages import TEMPLATES


def text_of(*written: bytes) -> str:
    console = ConsoleText()
    return "".join(run.text for piece in written for run in console.feed(piece))


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ([b"plain\r\ntext\t."], "plain\ntext\t."),
        ([b"\x1b[1;31mred\x1b[0m"], "red"),
        ([b"\x1b[1;", b"31mred"], "red"),
        ([b"\x1b[2J\x1b[10;4Hmoved"], "moved"),
        ([b"\x1b]0;title\x07shown"], "shown"),
        ([b"\xc3", b"\xa4"], "\u00e4"),
        ([b"\xff"], "\ufffd"),
        ([b"a\x00\x07\x08b"], "ab"),
        ([b"\x1b(Bx"], "x"),
    ],
)
def test_what_moves_a_cursor_is_not_shown(written: list[bytes], shown: str) -> None:
    assert text_of(*written) == shown


def test_an_escape_that_never_ends_is_held_back_for_one_line_alone() -> None:
    assert text_of(b"\x1b[" + b"1;" * 1000, b"\nshown").endswith("shown")


@pytest.mark.parametrize(
    ("sequence", "classes"),
    [
        (b"31", "c1"),
        (b"1;31", "c1 bold"),
        (b"44;97", "c7 g4"),
        (b"90", "c8"),
        (b"91", "c1"),
        (b"100", "g8"),
        (b"2;3;4;7;9", "faint inverse italic strike underline"),
        (b"1;22", ""),
        (b"31;39", ""),
        (b"41;49", ""),
        (b"31;0", ""),
        (b"31;", ""),
        (b"38;5;9", "c1"),
        (b"38;5;46", "c2"),
        (b"38;5;226", "c3"),
        (b"38;5;244", "c8"),
        (b"38;5;255", "c7"),
        (b"38;5;16", "c0"),
        (b"38;5;999", ""),
        (b"38:5:21", "c4"),
        (b"48;2;200;10;190", "g5"),
        (b"38;2;0;200", "c2"),
        (b"38", ""),
        (b"38;7;31", "c1"),
        (b"31;68;123456", "c1"),
    ],
)
def test_colours_are_classes(sequence: bytes, classes: str) -> None:
    runs = ConsoleText().feed(b"\x1b[" + sequence + b"mtext")
    assert runs == [("text", classes)]


def test_colours_hold_until_they_are_changed() -> None:
    console = ConsoleText()
    assert console.feed(b"a\x1b[31mb") == [("a", ""), ("b", "c1")]
    assert console.feed(b"c\x1b[3") == [("c", "c1")]
    assert console.feed(b"2md\x1b[me") == [("d", "c2"), ("e", "")]


def test_text_of_one_look_is_one_run() -> None:
    assert ConsoleText().feed(b"\x1b[0ma\x1b[mb\x1b[Kc") == [("abc", "")]


def test_what_a_guest_writes_is_no_markup() -> None:
    runs = ConsoleText().feed(b"\x1b[31m<script>\x1b[0m\"'&")
    assert [run.text for run in runs] == ["<script>", "\"'&"]
    page = "{% for text, classes in runs %}<b class={{ classes }}>{{ text }}{% endfor %}"
    assert "<script>" not in TEMPLATES.from_string(page).render(runs=runs)


def test_a_guest_that_changes_colours_all_the_time_costs_little() -> None:
    runs = ConsoleText().feed(b"\x1b[31mx\x1b[32mx" * 20_000)
    assert len(runs) == 40_000
    assert text_of(b"\x1b[31mx" * 40_000) == "x" * 40_000
