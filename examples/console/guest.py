"""The guest of a machine that has the agent: programs, files and terminals, for operators."""

from __future__ import annotations

import asyncio
import tempfile
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing
from pathlib import PurePosixPath
from typing import Annotated, BinaryIO, Final

from fastapi import Depends, HTTPException
from fastapi.responses import RedirectResponse, Response, StreamingResponse

from examples.console.account import CHECKED, Posted, for_those_who
from examples.console.events import Done, recorded
from examples.console.failures import CONFLICT, Failure, as_sentence, failed
from examples.console.guest_console import LONGEST_INPUT, AHosted, Seconds
from examples.console.hosted import HostedMonitor
from examples.console.output import STREAM_SECONDS, number_in
from examples.console.pages import answer, attachment, streamed
from examples.console.view import AVisit, Ran, machine_page
from generated_vmm import VmmError
from generated_vmm.guest import CompletedProgram, Output, ProgramLost, ProgramTimeout, TerminalSize

RUN_SECONDS: Final = 60.0
MOST_OUTPUT: Final = 1 << 20
"""Bytes of output that a page shows."""
MOST_FILE: Final = 1 << 30
"""Bytes of a file that is moved."""
GLANCE_SECONDS: Final = 0.1
INPUT_SECONDS: Final = 10.0
"""How long a program may take to read what was typed."""
TERMINAL: Final = TerminalSize(rows=24, columns=80)


def guest_of(monitor: AHosted) -> HostedMonitor:
    """The machine that the path names; 409 if it does not say that its guest has the agent."""
    if monitor.definition.agent is None:
        raise HTTPException(409, "This machine has no agent.")
    return monitor


AGuest = Annotated[HostedMonitor, Depends(guest_of)]


def require_shown(monitor: HostedMonitor, machine_id: object) -> None:
    """Raises ValueError for the form of another machine, which had the name before."""
    if machine_id != monitor.key:
        raise ValueError("the page is of an earlier machine of this name")


router = for_those_who("operate")
"""The forms of the page, and what its terminal asks for."""


@router.post("/machines/{machine}/guest/run", dependencies=CHECKED)
async def run(
    monitor: AGuest, visit: AVisit, command: Posted = "", machine_id: Posted = ""
) -> Response:
    """Run a command, and show its output."""
    ended: list[Ran] = []

    async def act() -> Done:
        require_shown(monitor, machine_id)
        ended.append((command, await _run(monitor, command)))
        return Done(f"Ran {command[:200]!r} in the guest.")

    failure = await recorded(monitor.events, f"run {command[:200]!r} in the guest", act)
    ran = next(iter(ended), None)
    return await machine_page(monitor, visit, "guest", failure=failure, ran=ran)


@router.get("/machines/{machine}/guest/file")
async def read(monitor: AGuest, visit: AVisit, path: str = "") -> Response:
    """A file of the guest."""
    file = tempfile.TemporaryFile()  # noqa: SIM115 - see parts_of

    async def act() -> Done:
        async with monitor.machine.guest() as guest:
            await guest.path(path).read_into(file, max_bytes=MOST_FILE)
        file.seek(0)
        return Done(f"Read {path} of the guest.")

    if failure := await recorded(monitor.events, f"read {path} of the guest", act):
        file.close()
        return await machine_page(monitor, visit, "guest", failure=failure)
    headers = attachment(PurePosixPath(path).name)
    return StreamingResponse(parts_of(file), media_type="application/octet-stream", headers=headers)


@router.post("/machines/{machine}/guest/file")
async def write(monitor: AGuest, visit: AVisit) -> Response:
    """Write a file to the guest."""

    async def act() -> Done:
        async with visit.form_with_file() as (form, file):
            require_shown(monitor, form.get("machine_id"))
            folder = str(form.get("path", "")).strip() or "/tmp/"  # noqa: S108 - of the guest
            path = _target(folder, file.filename or "")
            async with monitor.machine.guest() as guest:
                await guest.path(path).write_from(file.file)
            return Done(f"Wrote {path} in the guest: {file.size} bytes.")

    if failure := await recorded(monitor.events, "write a file in the guest", act):
        return await machine_page(monitor, visit, "guest", failure=failure)
    return RedirectResponse(f"/machines/{monitor.name}/guest?done=guest_file", 303)


@router.post("/machines/{machine}/guest/terminal", dependencies=CHECKED)
async def open_terminal(monitor: AGuest, visit: AVisit, machine_id: Posted = "") -> Response:
    """Start a shell, and show its terminal."""
    name = uuid.uuid4().hex

    async def act() -> Done:
        require_shown(monitor, machine_id)
        async with monitor.machine.guest() as guest:
            shell = ["/bin/sh", "-c", 'exec "$(command -v bash || echo /bin/sh)" -l']
            environment = {"TERM": "xterm-256color"}
            await guest.start(shell, id=name, terminal=TERMINAL, stdin=True, env=environment)
        monitor.terminals[visit.session.sub] = name  # that of the person's next pages
        return Done("Opened a terminal in the guest.")

    if failure := await recorded(monitor.events, "open a terminal in the guest", act):
        return await machine_page(monitor, visit, "guest", failure=failure)
    return RedirectResponse(f"/machines/{monitor.name}/guest?terminal={name}", 303)


@router.get("/machines/{machine}/guest/terminal/{program}/stream")
async def stream(
    monitor: AGuest, program: str, position: str = "", seconds: Seconds = STREAM_SECONDS
) -> Response:
    """The output of a terminal from a position on, once there is some.

    The response says where it begins: output that can be read no more is skipped.
    """
    at = max(number_in(position), 0)
    try:
        async with monitor.machine.guest() as guest:
            found = await guest.attach(program, offset=at)
    except (ProgramLost, ValueError) as error:  # or it has not written as much
        raise _ended(monitor, program) from error
    except VmmError as error:
        raise HTTPException(409, as_sentence(error)) from error
    if found.state.returncode is not None and at >= found.state.output_bytes:
        raise _ended(monitor, program)
    pieces = _output(monitor, program, at, max(seconds, GLANCE_SECONDS))
    first = await anext(pieces, None)
    lost = first.lost_bytes if first else 0
    return streamed(_in_a_row(first, pieces), str(at + lost), is_new=lost > 0)


@router.post("/machines/{machine}/guest/terminal/{program}/input", dependencies=CHECKED)
async def type_in(
    monitor: AGuest, program: str, text: Posted = "", rows: Posted = "", columns: Posted = ""
) -> Response:
    """Pass on what was typed, or a new size of the terminal."""
    try:
        async with asyncio.timeout(INPUT_SECONDS), monitor.machine.guest() as guest:
            found = await guest.attach(program)
            if rows.isdecimal() and columns.isdecimal():
                await found.resize(int(rows), int(columns))
            await found.write(text.encode()[:LONGEST_INPUT])
    except TimeoutError:
        return answer(Failure(CONFLICT, "The program in the guest reads no input."))
    except (VmmError, ValueError) as error:
        return answer(failed(error))
    return answer(None)


def _ended(monitor: HostedMonitor, program: str) -> HTTPException:
    """The answer about a terminal that has ended, which no later page shows."""
    monitor.terminals = {who: one for who, one in monitor.terminals.items() if one != program}
    return HTTPException(410, "This terminal has ended.")


async def _output(
    monitor: HostedMonitor, program: str, at: int, seconds: float
) -> AsyncGenerator[Output]:
    """The output of a program from a position on, for some seconds."""
    deadline = asyncio.get_running_loop().time() + seconds
    try:
        async with monitor.machine.guest() as guest:
            output = (await guest.attach(program, offset=at)).output()
            while True:
                async with asyncio.timeout_at(deadline):
                    piece = await anext(output)
                yield piece
    except (StopAsyncIteration, TimeoutError, VmmError):  # the browser asks again, and learns why
        return


async def _in_a_row(first: Output | None, rest: AsyncGenerator[Output]) -> AsyncIterator[bytes]:
    """The bytes of pieces, as long as nothing is missing between them."""
    async with aclosing(rest):
        if first:
            yield first.data
        async for piece in rest:
            if piece.lost_bytes:
                return
            yield piece.data


def parts_of(file: BinaryIO, size: int = 1 << 18) -> Iterator[bytes]:
    """The rest of a file in parts; closes it."""
    with file:
        while part := file.read(size):
            yield part


async def _run(monitor: HostedMonitor, command: str) -> CompletedProgram:
    if not command.strip():
        raise ValueError("type a command")
    async with monitor.machine.guest() as guest:
        try:
            return await guest.run(
                ["/bin/sh", "-c", command], timeout=RUN_SECONDS, max_output_bytes=MOST_OUTPUT
            )
        except ProgramTimeout as error:
            return error.completed


def _target(path: str, name: str) -> str:
    """The path in the guest: a folder gets the name of the file."""
    return f"{path}{PurePosixPath(name).name}" if path.endswith("/") else path
