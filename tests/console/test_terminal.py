"""The screen of a guest's console: what a terminal shows, at a bounded price."""

from __future__ import annotations

import asyncio
import gc
import time
from pathlib import Path

import pytest

from examples.console.endings import exit_in_words, plain_lines, plain_text
from examples.console.scrollback import Scrollback
from examples.console.terminal import BEHIND_BYTES, PAUSE_SECONDS, Run, Terminal

LONGEST_TURN = 0.5
"""Seconds for which nobody else may have to wait, also where other programs use the machine."""


async def shown(*pieces: bytes, size: tuple[int, int] = (20, 4)) -> list[str]:
    terminal = await fed(*pieces, size=size)
    return ["".join(run.text for run in row).rstrip() for row in terminal.rows()]


async def fed(*pieces: bytes, size: tuple[int, int] = (20, 4)) -> Terminal:
    terminal = Terminal(*size)
    for piece in pieces:
        terminal.feed(piece)
        await terminal.catch_up()
        await asyncio.sleep(PAUSE_SECONDS)
    return terminal


@pytest.mark.parametrize(
    ("written", "first_rows"),
    [
        (b"loading 1%\rloading 99%", ["loading 99%"]),
        (b"ab\bc", ["ac"]),
        (b"a\tb", ["a       b"]),
        (b"one\r\ntwo\x1b[1A\x1b[1Gx", ["xne", "two"]),
        (b"old\x1b[2J\x1b[Hnew", ["new"]),
        (b"\x1b]0;title\x07text", ["text"]),
        ("\u00e9\u4e2d".encode(), ["\u00e9\u4e2d"]),
        (b"\xff!", ["\ufffd!"]),
    ],
)
async def test_it_is_a_terminal(written: bytes, first_rows: list[str]) -> None:
    assert (await shown(written))[: len(first_rows)] == first_rows


async def test_a_sequence_may_come_in_pieces() -> None:
    terminal = await fed(b"\x1b[3", b"1mred")
    assert terminal.rows()[0][0] == Run("red", "c1")


@pytest.mark.parametrize(
    ("sequence", "classes"),
    [
        ("1;32", "c2 bold"),
        ("93", "c3"),
        ("90", "c8"),
        ("44", "g4"),
        ("105", "g5"),
        ("38;5;196", "c1"),
        ("38;2;10;10;10", "c0"),
        ("48;2;0;0;250", "g4"),
        ("7;4;9;3", "inverse italic strike underline"),
    ],
)
async def test_colours_are_classes_of_the_style_sheet(sequence: str, classes: str) -> None:
    terminal = await fed(f"\x1b[{sequence}mx\x1b[0m".encode())
    assert terminal.rows()[0][0] == Run("x", classes)


async def test_the_cursor_is_shown_unless_it_is_hidden() -> None:
    assert Run(" ", "cursor") in (await fed(b"ab")).rows()[0]
    assert (await fed(b"ab\x1b[?25l")).rows()[0] == [Run("ab", "")]


async def test_the_screen_can_be_made_larger() -> None:
    terminal = await fed(b"text")
    terminal.resize(132, 43)
    assert terminal.size == (132, 43)
    assert len(terminal.rows()) == 43
    assert terminal.rows()[0][0].text == "text"


async def test_what_nobody_could_read_is_dropped() -> None:
    terminal = Terminal()
    for number in range(20_000):
        terminal.feed(f"line {number}\r\n".encode())
    await until_quiet(terminal)
    assert any("line 19999" in run.text for row in terminal.rows() for run in row)


@pytest.mark.parametrize(
    "written",
    [
        pytest.param(b"\x1b[31mx\x1b[42my\x1b[0m" * 2000, id="colours"),
        pytest.param(b"\x1b#8" * 9000, id="fills the screen"),
        pytest.param(b"x\x1b[2J" * 6000, id="erases the screen"),
        pytest.param(b"\x1b[9999@\x1b[9999L" * 2000, id="inserts"),
        pytest.param(b"\x1b]" + b"x" * 30_000, id="a title without an end"),
        pytest.param(b"\x1b[" + b"1;" * 15_000, id="parameters without an end"),
        pytest.param(b"\x1b[?1m\x1b[?5n\x1b[=1h" * 2000, id="what the emulator does not know"),
        pytest.param(bytes(range(256)) * 100, id="every byte"),
    ],
)
async def test_whatever_a_guest_writes_others_have_their_turn(written: bytes) -> None:
    terminal, longest = Terminal(), 0.0
    gc.collect()  # what other tests left takes longer than the terminal may
    terminal.feed(written)
    work = asyncio.ensure_future(terminal.catch_up())
    while not work.done():
        began = time.thread_time()
        await asyncio.sleep(0)
        longest = max(longest, time.thread_time() - began)
    assert longest < LONGEST_TURN


async def test_a_sequence_without_an_end_is_given_up() -> None:
    terminal = Terminal()
    terminal.feed(b"\x1b]")
    for _ in range(5):
        terminal.feed(b"x" * BEHIND_BYTES)
        await until_quiet(terminal)
    terminal.feed(b"\r\nback again")
    await until_quiet(terminal)
    assert any("back again" in run.text for row in terminal.rows() for run in row)


async def until_quiet(terminal: Terminal) -> None:
    """Looks until everything is interpreted."""
    before = -1
    while before != terminal.version:
        before = terminal.version
        await asyncio.sleep(PAUSE_SECONDS)
        await terminal.catch_up()


def test_the_scrollback_is_bounded_and_has_the_last(tmp_path: Path) -> None:
    scrollback = Scrollback(tmp_path / "web.log", part_bytes=1000)
    written = b"".join(f"{number:04}\n".encode() for number in range(1000))
    for begin in range(0, len(written), 50):
        scrollback.append(written[begin : begin + 50])
    kept = scrollback.read()
    assert written.endswith(kept)
    assert 1000 < len(kept) < 2200
    assert scrollback.read(7) == written[-7:]
    assert Scrollback(tmp_path / "web.log").read() == kept
    scrollback.remove()
    assert scrollback.read() == b""
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_takes_nothing_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Scrollback(tmp_path / "none" / "web.log").append(b"text")
    assert "cannot be written" in caplog.text


def test_text_is_what_is_left_without_sequences() -> None:
    written = b"\x1b[1;32mOK\x1b[0m \x1b]0;title\x07done\r\n\r\nnext\x00"
    assert plain_text(written) == "OK done\n\nnext"
    assert plain_lines(written) == ["OK done", "next"]


@pytest.mark.parametrize(
    ("returncode", "words"),
    [
        (0, "exit status 0"),
        (148, "exit status 148"),
        (-9, "killed by SIGKILL (signal 9)"),
        (-77, "killed by signal 77"),
        (None, "its exit status is not known here"),
    ],
)
def test_an_end_is_told_in_words(returncode: int | None, words: str) -> None:
    assert exit_in_words(returncode) == words
