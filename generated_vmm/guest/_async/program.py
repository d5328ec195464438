"""A program in a guest."""

from __future__ import annotations

import base64
import math
import time
from collections.abc import AsyncIterator
from signal import SIGKILL, SIGTERM

from generated_vmm.concurrency._async import sleep
from generated_vmm.guest._async.link import PAUSE, AsyncLink
from generated_vmm.guest._generated import models, operations
from generated_vmm.guest.answers import Output, broken, frames_of
from generated_vmm.guest.errors import (
    CompletedProgram,
    GuestAgentTimeout,
    ProgramOutputTooLarge,
)
from generated_vmm.operation import Operation
from generated_vmm.transport.calls import deadline_after

LONGEST_WAIT = 10.0  # seconds that the agent delays a response, for news
INPUT_BYTES = 262_144  # of one request
DEFAULT_MAX_OUTPUT_BYTES = 67_108_864


class AsyncProgram:
    """A program that the agent has started, under an `id` by which any process can attach to it.

    It runs on when its host goes away, until its own time limit. `output` begins at `offset`, the
    number of bytes read before, by this object or by another one. `args` of an attached program are
    its first ten, of which each is cut after 100 characters.
    """

    def __init__(
        self, link: AsyncLink, id: str, args: list[str], state: models.ProgramState, offset: int
    ) -> None:
        self._link = link
        self.id, self.args, self.pid = id, args, state.pid
        self.offset = offset
        self._input_bytes, self._takes_input = state.input_bytes, True
        self._state = state
        self._kept: list[Output] = []

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.args!r}>"

    @property
    def returncode(self) -> int | None:
        """The exit status, or -N for signal N; None until a call has seen the end."""
        return self._state.returncode

    @property
    def output_bytes(self) -> int:
        """How much output there was when a call last asked."""
        return self._state.output_bytes

    @property
    def timed_out(self) -> bool:
        """Whether the time limit ended the program."""
        return self._state.timed_out

    async def poll(self) -> int | None:
        """The `returncode`, None while the program runs."""
        self._state = await self._link.send(operations.describe_program(self.id))
        return self.returncode

    async def wait(self, timeout: float | None = None) -> int:
        """Waits until the program has ended, and returns its `returncode`.

        Its output must be read, else it may never end. Raises `GuestAgentTimeout` if it has not
        ended within `timeout` seconds, and leaves it running.
        """
        deadline = deadline_after(timeout)
        while True:
            begun = time.monotonic()
            wait = max(0.0, min(LONGEST_WAIT, deadline - begun))
            operation = operations.describe_program(self.id, wait_ms=round(wait * 1000))
            self._state = await self._link.send(operation, wait=wait)
            if self._state.returncode is not None:
                return self._state.returncode
            if time.monotonic() >= deadline:
                unread = self.output_bytes - self.offset
                why = f"; {unread} bytes of output are unread: use `communicate`" if unread else ""
                message = f"{self!r} has not ended within {timeout} s{why}"
                raise GuestAgentTimeout(message, operation)
            await _rest_of(begun, wait)

    async def output(self) -> AsyncIterator[Output]:
        """The output from `offset` to the end of the program, in the order in which it came."""
        while not self._is_at_end():
            for each in await self._read(LONGEST_WAIT):
                yield each

    async def _read(self, wait: float) -> list[Output]:
        """The output that is there, or comes in time; the next call acknowledges it."""
        if found := self._kept:
            self._kept = []
            return found
        begun = time.monotonic()
        operation = operations.read_output(self.id, offset=self.offset, wait_ms=round(wait * 1000))
        found = self._take(operation, await self._link.send(operation, wait=wait))
        if not found and not self._is_at_end():
            await _rest_of(begun, wait)
        return found

    def keep(self, operation: Operation[object], answer: models.ProgramOutput) -> None:
        """Stores the output in the response to the start, which is read next."""
        self._kept = self._take(operation, answer)

    def _take(self, operation: Operation[object], answer: models.ProgramOutput) -> list[Output]:
        try:
            found = list(frames_of(self.offset, answer))
        except ValueError as error:
            raise broken(self._link.what, operation, str(error)) from error
        self._state, self.offset = answer.program, answer.next_offset
        return found

    def _is_at_end(self) -> bool:
        is_read = self.offset >= self._state.output_bytes and not self._kept
        return self._state.returncode is not None and is_read

    async def write(self, data: bytes) -> None:
        """Writes to the program's input, and waits until the program has taken all.

        Raises BrokenPipeError if it reads no more.
        """
        view = memoryview(data)
        while view:
            view = view[await self._write(bytes(view[:INPUT_BYTES]), LONGEST_WAIT) :]
            if view and not self._takes_input:
                raise BrokenPipeError(f"{self!r} reads no more input")

    async def close_input(self) -> None:
        """Ends the program's input; a terminal gets the character for it, ^D."""
        await self._write(b"", 0, close=True)

    async def _write(self, data: bytes, wait: float, *, close: bool = False) -> int:
        """How many bytes the program took in time."""
        encoded, before = base64.b64encode(data).decode(), self._input_bytes
        body = models.ProgramInput(offset=before, data=encoded, close=close)
        operation = operations.write_input(self.id, body, wait_ms=round(wait * 1000))
        begun = time.monotonic()
        answer = await self._link.send(operation, wait=wait)
        taken = answer.input_bytes - before
        if not 0 <= taken <= len(data):
            raise broken(self._link.what, operation, f"it took {taken} of {len(data)} bytes")
        self._input_bytes, self._takes_input = answer.input_bytes, answer.is_open
        if not taken:
            await _rest_of(begun, wait)
        return taken

    async def communicate(
        self, input: bytes | None = None, max_output_bytes: int = DEFAULT_MAX_OUTPUT_BYTES
    ) -> CompletedProgram:
        """Writes and closes the input, reads the output, and waits for the end.

        Raises `ProgramOutputTooLarge` beyond `max_output_bytes`, and ends the program.
        """
        return await self.complete(input, max_output_bytes, math.inf)

    async def complete(
        self, input: bytes | None, max_output_bytes: int, deadline: float
    ) -> CompletedProgram:
        """Communicates. Raises `GuestAgentTimeout` at the deadline."""
        rest = None if input is None else memoryview(input)
        found = {"stdout": bytearray(), "stderr": bytearray()}
        while not self._is_at_end():
            if (left := deadline - time.monotonic()) < 0:
                raise GuestAgentTimeout(f"{self!r}: the agent has not ended it in time")
            taken = 0
            if rest is not None:
                taken = await self._write(
                    bytes(rest[:INPUT_BYTES]), 0, close=len(rest) <= INPUT_BYTES
                )
                rest = rest[taken:]
                if not self._takes_input:
                    rest = None
            wait = LONGEST_WAIT if rest is None else 0.0 if taken else PAUSE
            for each in await self._read(min(wait, left)):
                found[each.stream] += each.data
            if sum(map(len, found.values())) > max_output_bytes:
                await self.kill()
                raise ProgramOutputTooLarge(f"{self!r} wrote more than {max_output_bytes} bytes")
        assert self.returncode is not None
        return CompletedProgram(self.args, self.returncode, *map(bytes, found.values()))

    async def send_signal(self, signal: int) -> None:
        """Sends a signal to the program's process group; nothing happens after its end.

        SIGKILL ends every process that it has started, those in other sessions included.
        """
        body = models.ProgramSignal(signal=int(signal))
        self._state = await self._link.send(operations.signal_program(self.id, body))

    async def terminate(self) -> None:
        """Sends SIGTERM."""
        await self.send_signal(SIGTERM)

    async def kill(self) -> None:
        """Ends the program and every process that it has started."""
        await self.send_signal(SIGKILL)

    async def resize(self, rows: int, columns: int) -> None:
        """Sets the size of the program's terminal; nothing happens after its end."""
        size = models.TerminalSize(rows=rows, columns=columns)
        await self._link.send(operations.resize_terminal(self.id, size))

    async def remove(self) -> None:
        """Ends the program and every process that it has started; its id is unknown then."""
        await self._link.send(operations.remove_program(self.id), repeat=False)


async def _rest_of(begun: float, wait: float) -> None:
    """A pause after a response that came early without news: agents wait, this one may not."""
    if time.monotonic() - begun < wait:
        await sleep(PAUSE)
