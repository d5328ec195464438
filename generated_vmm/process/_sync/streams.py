# Derived from `generated_vmm/process/_async/streams.py` by `make codegen`. Do not edit.
"""Following a monitor's outputs: its guest's console, its log, its metrics."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TypeVar

from generated_vmm.concurrency._sync import sleep
from generated_vmm.errors import VmmTimeoutError
from generated_vmm.facade.elsewhere import SERIAL
from generated_vmm.misuse import Told, require_bytes, warn_caller
from generated_vmm.process._sync.waiting import comes_true
from generated_vmm.process.errors import MonitorError
from generated_vmm.process.outlets import BroadcastLog, Console, LastItems, Piece
from generated_vmm.transport.calls import deadline_after

Item = TypeVar("Item")
PAUSE = 0.01  # seconds between attempts to write to a guest that does not read
LONGEST_QUOTE = 40
CAUSES = (
    "is the machine started and not paused, is console=ttyS0 in boot_args and no serial_out_path "
    "set, and did the last write end with a line break?"
)


class Followed(BroadcastLog[Item]):
    """A stream that grows until the monitor ends, and that can be waited for."""

    def wait(self, position: int, seconds: float | None = None) -> bool:
        """Waits for data from a position on; false at the end. Raises TimeoutError.

        Raises `MonitorError` in a forked process.
        """
        self.require_own()
        if not comes_true(self, lambda: self.ended or self.position > position, seconds):
            raise TimeoutError
        return self.position > position

    def follow(self, since: int | None = None) -> Iterator[Item]:
        """What comes from a position on (None: only what is new), until the monitor ends.

        A follower that is slower than the stream misses what has been dropped.
        """
        return self._follow(self.position if since is None else since)

    def _follow(self, position: int) -> Iterator[Item]:
        while self.wait(position):
            items, position = self.piece(position)
            for item in items:
                yield item


class RingBuffer(Followed[Item], LastItems[Item]):
    """The last items of a stream, oldest first: iterate over them, or `follow` new ones."""


class Serial(Followed[Piece], Console, Told):
    """The guest's serial console: its last bytes, and writing to it.

    The monitor's own output before its log is set up comes here too. Several callers may share it.
    """

    _elsewhere = SERIAL
    _written_at = 0  # the position at the last write

    def read_until(self, expected: bytes, since: int | None = None, timeout: float = 10.0) -> Piece:
        """The stored bytes from a position on, or all, as soon as they contain `expected`.

        Emits a RuntimeWarning without `since` if all of it is older than the last `write`. Raises
        `VmmTimeoutError` if they do not within `timeout` seconds, and `MonitorError` if the
        monitor ends before.
        """
        require_bytes("expected", expected)
        deadline = deadline_after(timeout)
        while expected not in (piece := self.read(since or 0)).data:
            last = piece.data[-LONGEST_QUOTE:]
            try:
                if (left := deadline - time.monotonic()) <= 0:  # also while the guest writes on
                    raise TimeoutError
                if not self.wait(piece.end, left):
                    what = f"the monitor ended before its guest wrote {expected!r}; last: {last!r}"
                    raise MonitorError(what)
            except TimeoutError as error:
                what = f"the guest did not write {expected!r} after {last!r} within {timeout} s"
                raise VmmTimeoutError(f"{what}: {CAUSES}") from error
        found = piece.start + piece.data.rindex(expected) + len(expected)
        if since is None and found <= self._written_at:
            what = f"{expected!r} is older than the last write"
            warn_caller(f"{what}: pass since=, the end of the piece that was read before it")
        return piece

    def write(self, data: bytes, timeout: float = 5.0) -> None:
        """Writes to the guest's console; the monitor's fifo buffers 64 KiB for a slow guest.

        Raises `VmmTimeoutError` if the bytes are not read within `timeout` seconds, and
        `MonitorError` if no monitor reads them, and in a forked process.
        """
        self.require_own()
        require_bytes("data", data)
        deadline, size, self._written_at = deadline_after(timeout), len(data), self.position
        try:
            while (data := data[self.write_input(data) :]) and time.monotonic() < deadline:
                sleep(PAUSE)
        except OSError as error:  # ENXIO, EPIPE: no monitor has it open
            raise MonitorError(f"the guest's console takes no input: {error}") from error
        if data:
            raise VmmTimeoutError(f"the guest did not take all of {size} bytes within {timeout} s")
