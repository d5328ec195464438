"""The screen of a guest's console: what a terminal shows, at a bounded price."""

import time
from pathlib import Path
from typing import Final

import pytest

from examples.console.output import (
    BEHIND_BYTES,
    Scrollback,
    exit_in_words,
    plain_lines,
    plain_text,
    screen_of,
)

LONGEST: Final = 2.0
"""Seconds of a thread's time, also where other programs use the machine."""


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
def test_it_is_a_terminal(written: bytes, first_rows: list[str]) -> None:
    assert screen_of(written, 20, 4)[: len(first_rows)] == first_rows


def test_the_screen_has_its_size_and_the_last_output() -> None:
    written = "".join(f"line {number}\n" for number in range(2000)).encode()
    rows = screen_of(written[-BEHIND_BYTES:], 132, 43, bare_newlines=True)
    assert len(rows) == 43
    assert rows[-2:] == ["line 1999", ""]


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
def test_whatever_a_guest_writes_takes_little_time(written: bytes) -> None:
    began = time.thread_time()
    assert screen_of(written[:BEHIND_BYTES], 100, 30)
    assert time.thread_time() - began < LONGEST


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
