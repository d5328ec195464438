"""A program in a guest."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import AsyncIterator
from signal import SIGKILL
from typing import Unpack

from generated_vmm.concurrency._async import sleep
from generated_vmm.facade.elsewhere import PROGRAM
from generated_vmm.guest import errors
from generated_vmm.guest._async.link import PAUSE, AsyncLink
from generated_vmm.guest._generated import models, operations
from generated_vmm.guest.answers import Output, pieces_of
from generated_vmm.misuse import Raw, Told, require_kind, tell_unit, warn_caller
from generated_vmm.transport.calls import deadline_after

logger = logging.getLogger(__name__)
LONGEST_WAIT = 10.0  # seconds that the agent delays a response, for news
INPUT_BYTES = 262_144  # of one request
MAX_OUTPUT_BYTES = 67_108_864
UNREAD = (
    "{!r} stands still until its output is read: read it, or start a server as "
    "['sh', '-c', 'exec server >/var/log/server 2>&1']"
)
INPUT_IS_OPEN = "; its input is open: close_input() ends it"


class AsyncProgram(Told):
    """A program that the agent has started, under an `id` by which any process can attach to it.

    The program continues when its host ends, until its own time limit. `state` is what the last
    call was told. `output` begins at `offset`, the number of bytes that this object or another one
    has read before. `args` of an attached program are its first ten arguments, of which each is cut
    after 100 characters.
    """

    _elsewhere = PROGRAM

    def __init__(
        self, link: AsyncLink, id: str, args: list[str], told: models.ProgramOutput, offset: int
    ) -> None:
        self._link, self._known, self.state = link, pieces_of(told), told.program
        self.id, self.args, self.offset = id, args, offset

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.args!r}>"

    async def poll(self) -> int | None:
        """The exit status, or -N for signal N; None while the program runs."""
        await self._exchange()
        if self.state.is_unread:
            warn_caller(UNREAD.format(self))
        return self.state.returncode

    async def wait(self, timeout: float | None = None) -> int:
        """Waits until the program has ended, and returns its exit status, or -N for signal N.

        Its output must be read and its input closed, else it may never end, and the log says so.
        Raises `GuestAgentTimeout` if it has not ended within `timeout` seconds, and leaves it
        running.
        """
        deadline = deadline_after(timeout)
        tell_unit("timeout", timeout or 0)
        while True:
            await self._exchange(max(0.0, min(LONGEST_WAIT, deadline - time.monotonic())))
            if self.state.returncode is not None:
                return self.state.returncode
            why = "; its output is unread: use `communicate`" if self.state.is_unread else ""
            why += INPUT_IS_OPEN if self.state.takes_input else ""
            if time.monotonic() >= deadline:
                raise errors.GuestAgentTimeout(f"{self!r} has not ended within {timeout} s{why}")
            if why:
                logger.warning("the program %s has not ended%s", self.id, why)

    async def output(self, deadline: float = math.inf) -> AsyncIterator[Output]:
        """The output from `offset` to the end of the program.

        Each stream is in order; both are in the order in which the agent read them. Raises
        `GuestAgentTimeout` at a deadline, which is a `time.monotonic()`.
        """
        known, self._known = self._known, []
        while True:
            for each in known:
                self.offset += each.lost_bytes + len(each.data)
                yield each
            if self.state.returncode is not None and self.offset >= self.state.output_bytes:
                return
            if (left := deadline - time.monotonic()) < 0:
                raise errors.GuestAgentTimeout(f"{self!r}: the agent has not ended it in time")
            known = pieces_of(await self._exchange(min(LONGEST_WAIT, left), offset=self.offset))

    async def communicate(
        self, max_output_bytes: int = MAX_OUTPUT_BYTES, deadline: float = math.inf
    ) -> errors.CompletedProgram:
        """Reads the output from `offset` on, and waits for the end.

        Raises `GuestProgramError` beyond `max_output_bytes`, and ends the program, and if some of
        the output can be read no more.
        """
        require_kind("max_output_bytes", max_output_bytes, "a number of bytes", int)
        streams, begin = {"stdout": bytearray(), "stderr": bytearray()}, self.offset
        async for each in self.output(deadline):
            if each.lost_bytes:
                lost = f"{each.lost_bytes} bytes of its output can be read no more"
                raise errors.GuestProgramError(f"{self!r}: {lost}")
            streams[each.stream] += each.data
            if self.offset - begin > max_output_bytes:
                await self.kill()
                raise errors.GuestProgramError(f"{self!r} wrote more than {max_output_bytes} bytes")
        status = self.state.returncode or 0  # `output` ends with the program
        return errors.CompletedProgram(self.args, status, *map(Raw, streams.values()))

    async def write(self, data: bytes) -> None:
        """Writes to the program's input, and waits until all is in its pipe, or its terminal.

        A pipe has room for 256 KiB that the program has not read. Raises BrokenPipeError if the
        program reads no more. If it is interrupted, a part may be written.
        """
        if await self._feed(memoryview(data), closes=False):
            raise BrokenPipeError(f"{self!r} reads no input, or none without stdin=True")

    async def close_input(self) -> None:
        """Ends the program's input, after all that was written; a terminal gets ^D."""
        await self._feed(memoryview(b""), closes=True)

    async def _feed(self, rest: memoryview, *, closes: bool) -> memoryview:
        """Writes from where the input is: an earlier call may have been interrupted.

        Returns what the program has not taken.
        """
        state = (await self._exchange()).program
        while state.takes_input and (rest or closes):
            at, part = state.input_bytes, bytes(rest[:INPUT_BYTES])
            is_last = closes and len(part) == len(rest)
            told = await self._exchange(LONGEST_WAIT, input_offset=at, data=part, close=is_last)
            state = told.program
            rest = rest[max(0, state.input_bytes - at) :]
        return rest

    async def _exchange(
        self, wait: float = 0.0, **fields: Unpack[models.ExchangeFields]
    ) -> models.ProgramOutput:
        """Tells the program something, and returns its news."""
        body, before = models.Exchange(**fields), self.state
        operation = operations.exchange_with_program(self.id, body, wait_ms=round(wait * 1000))
        told = await self._link.send(operation, wait)
        self.state = told.program
        if wait and not pieces_of(told) and told.program == before:  # agents wait, this one may not
            await sleep(PAUSE)
        return told

    async def send_signal(self, signal: int) -> None:
        """Sends a signal to the program's process group; nothing happens after its end.

        It may arrive twice if a connection is lost. SIGKILL ends every process that the program has
        started, those in other sessions included.
        """
        require_kind("signal", signal, "a number, such as signal.SIGTERM", int)
        await self._exchange(signal=int(signal))

    async def kill(self) -> None:
        """Ends the program and every process that it has started."""
        await self.send_signal(SIGKILL)

    async def resize(self, rows: int, columns: int) -> None:
        """Sets the size of the program's terminal; nothing happens after its end."""
        await self._exchange(terminal=models.TerminalSize(rows=rows, columns=columns))
