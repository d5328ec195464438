# Derived from `generated_vmm/guest/_async/program.py` by `make codegen`. Do not edit.
"""A program in a guest."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterator
from signal import SIGKILL, SIGTERM
from typing import Unpack

from generated_vmm.concurrency._sync import sleep
from generated_vmm.facade.elsewhere import PROGRAM
from generated_vmm.guest import errors
from generated_vmm.guest._generated import models, operations
from generated_vmm.guest._sync.link import PAUSE, Link
from generated_vmm.guest.answers import Output, pieces_of
from generated_vmm.misuse import Raw, Told, require_kind, tell_unit, warn_caller
from generated_vmm.transport.calls import deadline_after

logger = logging.getLogger(__name__)
LONGEST_WAIT = 10.0  # seconds that the agent delays a response, for news
INPUT_BYTES = 262_144  # of one request
DEFAULT_MAX_OUTPUT_BYTES = 67_108_864
MOST_UNREAD = 1_048_576  # bytes of output, with which a program waits to be read
MOST_READS = 20  # of `returncode`, without a call
UNREAD = (
    "{}, {!r}, stands still until its output is read: read it, or start a server as "
    "['sh', '-c', 'exec server >/var/log/server 2>&1']"
)
INPUT_IS_OPEN = "; its input is open: close_input() ends it, or use communicate(input)"


def tell_unread(state: models.ProgramState) -> None:
    """A RuntimeWarning for a program that nobody reads, and that stands still for that."""
    if state.is_unread:
        warn_caller(UNREAD.format(state.id, state.args[:1]))


class Program(Told):
    """A program that the agent has started, under an `id` by which any process can attach to it.

    The program continues when its host ends, until its own time limit. `output` begins at `offset`,
    the number of bytes that this object or another one has read before. `args` of an attached
    program are its first ten arguments, of which each is cut after 100 characters.
    """

    _elsewhere = PROGRAM

    def __init__(
        self, link: Link, id: str, args: list[str], state: models.ProgramState, offset: int
    ) -> None:
        self._link, self._state, self._reads = link, state, 0
        self._first = offset
        self._written: int | None = state.input_bytes  # as the last call that wrote was told
        self.id, self.args, self.pid, self.offset = id, args, state.pid, offset

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.args!r}>"

    @property
    def returncode(self) -> int | None:
        """The exit status, or -N for signal N; None until a call, such as `poll`, has seen the end.

        Emits a RuntimeWarning if it is read in a loop without a call.
        """
        self._reads += self._state.returncode is None
        if self._reads == MOST_READS:
            warn_caller("returncode is as of the last call, such as poll(): this loop makes none")
        return self._state.returncode

    @property
    def output_bytes(self) -> int:
        """How much output there was when a call last asked."""
        return self._state.output_bytes

    @property
    def timed_out(self) -> bool:
        """Whether the time limit ended the program."""
        return self._state.timed_out

    def poll(self) -> int | None:
        """The `returncode`, None while the program runs."""
        self._exchange()
        tell_unread(self._state)
        return self._state.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Waits until the program has ended, and returns its `returncode`.

        Its output must be read and its input closed, else it may never end: without a `timeout`,
        the log says so. Raises `GuestAgentTimeout` if it has not ended within `timeout` seconds,
        and leaves it running.
        """
        deadline, is_told = deadline_after(timeout), timeout is not None
        tell_unit("timeout", timeout or 0)
        while True:
            self._exchange(max(0.0, min(LONGEST_WAIT, deadline - time.monotonic())))
            if self._state.returncode is not None:
                return self._state.returncode
            unread = self.output_bytes - self.offset
            why = f"; {unread} bytes of output are unread: use `communicate`" if unread else ""
            why += INPUT_IS_OPEN if self._state.takes_input else ""
            if time.monotonic() >= deadline:
                raise errors.GuestAgentTimeout(f"{self!r} has not ended within {timeout} s{why}")
            if not is_told and (self._state.takes_input or unread >= MOST_UNREAD):
                is_told = True
                logger.warning("the program %s has not ended%s", self.id, why)

    def output(self) -> Iterator[Output]:
        """The output from `offset` to the end of the program.

        Each stream is in order; both are in the order in which the agent read them.
        """
        while not self._has_ended_at(self.offset):
            for each in (self._exchange(LONGEST_WAIT, offset=self.offset))[0]:
                self.offset += each.lost_bytes + len(each.data)
                yield each

    def _has_ended_at(self, offset: int) -> bool:
        return self._state.returncode is not None and offset >= self._state.output_bytes

    def write(self, data: bytes) -> None:
        """Writes to the program's input, and waits until all is in its pipe, or its terminal.

        A pipe has room for 256 KiB that the program has not read. Raises BrokenPipeError if the
        program reads no more. If it is interrupted, a part may be written.
        """
        rest: memoryview | None = memoryview(data)
        while rest:
            _, rest = self._exchange(LONGEST_WAIT, rest)
            if rest and not self._state.takes_input:
                raise BrokenPipeError(f"{self!r} reads no input, or none without stdin=True")

    def close_input(self) -> None:
        """Ends the program's input, after all that was written; a terminal gets ^D.

        It waits until the agent has taken the end, as `write` does.
        """
        while self._state.takes_input:
            self._exchange(LONGEST_WAIT, memoryview(b""), closes=True)

    def communicate(
        self, input: bytes | None = None, max_output_bytes: int = DEFAULT_MAX_OUTPUT_BYTES
    ) -> errors.CompletedProgram:
        """Writes and closes the input, reads the output from `offset` on, and waits for the end.

        Raises `ProgramOutputTooLarge` beyond `max_output_bytes`, and ends the program;
        `ProgramOutputLost` if some of the output can be read no more. An error leaves `offset` as
        it was.
        """
        if self.offset > self._first and self._has_ended_at(self.offset):
            warn_caller("all output was read before: offset = 0 reads it again, wait() does not")
        return self.complete([], input, max_output_bytes, math.inf)

    def complete(
        self, known: list[Output], input: bytes | None, max_output_bytes: int, deadline: float
    ) -> errors.CompletedProgram:
        """Communicates, after some output. Raises `GuestAgentTimeout` at the deadline."""
        require_kind("max_output_bytes", max_output_bytes, "a number of bytes", int)
        rest = None if input is None else memoryview(input)
        streams, offset = {"stdout": bytearray(), "stderr": bytearray()}, self.offset
        while True:
            for each in known:
                if each.lost_bytes:
                    lost = f"{each.lost_bytes} bytes of its output can be read no more"
                    raise errors.ProgramOutputLost(f"{self!r}: {lost}")
                streams[each.stream] += each.data
                offset += len(each.data)
            if offset - self.offset > max_output_bytes:
                self.kill()
                reason = f"{self!r} wrote more than {max_output_bytes} bytes"
                raise errors.ProgramOutputTooLarge(reason)
            if (status := self._state.returncode) is not None and self._has_ended_at(offset):
                self.offset, output = offset, map(Raw, streams.values())
                return errors.CompletedProgram(self.args, status, *output)
            if (left := deadline - time.monotonic()) < 0:
                raise errors.GuestAgentTimeout(f"{self!r}: the agent has not ended it in time")
            wait, taken = min(LONGEST_WAIT, left), rest if self._state.takes_input else None
            known, rest = self._exchange(wait, taken, closes=True, offset=offset)

    def _exchange(
        self,
        wait: float = 0.0,
        rest: memoryview | None = None,
        *,
        closes: bool = False,
        **fields: Unpack[models.ExchangeFields],
    ) -> tuple[list[Output], memoryview | None]:
        """Tells the program something; returns output, and what the program has not taken.

        It writes the first of the rest of the input, and closes the input after the last.
        """
        begun, before, self._reads = time.monotonic(), 0, 0
        if rest is not None:
            if self._written is None:  # such a call was interrupted
                self._exchange()
                self._written = self._state.input_bytes
            before, self._written = self._written, None
            fields["input_offset"], fields["data"] = before, bytes(rest[:INPUT_BYTES])
            fields["close"] = closes and len(rest) <= INPUT_BYTES
        body = models.Exchange(**fields)
        operation = operations.exchange_with_program(self.id, body, wait_ms=round(wait * 1000))
        answer = self._link.send(operation, wait)
        self._state, found = answer.program, pieces_of(answer)
        if rest is not None:
            self._written = answer.program.input_bytes
        taken = max(0, answer.program.input_bytes - before)
        is_news = found or (taken and rest) or self._state.returncode is not None
        if not is_news and time.monotonic() - begun < wait:  # agents wait, this one may not
            sleep(PAUSE)
        return found, rest and rest[taken:]

    def send_signal(self, signal: int) -> None:
        """Sends a signal to the program's process group; nothing happens after its end.

        It may arrive twice if a connection is lost. SIGKILL ends every process that the program has
        started, those in other sessions included.
        """
        require_kind("signal", signal, "a number, such as signal.SIGTERM", int)
        self._exchange(signal=int(signal))

    def terminate(self) -> None:
        """Sends SIGTERM."""
        self.send_signal(SIGTERM)

    def kill(self) -> None:
        """Ends the program and every process that it has started."""
        self.send_signal(SIGKILL)

    def resize(self, rows: int, columns: int) -> None:
        """Sets the size of the program's terminal; nothing happens after its end."""
        self._exchange(terminal=models.TerminalSize(rows=rows, columns=columns))
