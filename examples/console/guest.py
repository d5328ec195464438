"""The guest of a machine that has the agent: programs, files and terminals, for operators."""

from __future__ import annotations

import asyncio
import tempfile
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from pathlib import PurePosixPath
from typing import Annotated, Final

from fastapi import Depends, HTTPException, Request
from fastapi.responses import JSONResponse, RedirectResponse, Response, StreamingResponse

from examples.console.account import CHECKED, Posted, Signed, for_those_who, oidc_of
from examples.console.events import recorded
from examples.console.guest_console import LONGEST_INPUT, AHosted, Seconds
from examples.console.hosted import HostedMonitor
from examples.console.identity import User
from examples.console.pages import NO_STORE, attachment
from examples.console.plain_words import as_sentence
from examples.console.streams import STREAM_SECONDS, number_in
from examples.console.uploads import Upload, parts_of
from examples.console.view import machine_page, visit_of
from fastapi_oidc import OIDCSession
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
Ran = tuple[str, CompletedProgram]


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


async def guest_page(
    request: Request,
    monitor: HostedMonitor,
    session: OIDCSession[User],
    *,
    refusal: str = "",
    ran: Ran | None = None,
) -> Response:
    """The page, with what was refused or has run."""
    status = 409 if refusal else 200
    visit = await visit_of(request, session, tab="guest", refusal=refusal, ran=ran, status=status)
    return await machine_page(monitor, visit)


router = for_those_who("operate")
"""The forms of the page, and what its terminal asks for."""


@router.post("/machines/{machine}/guest/run", dependencies=CHECKED)
async def run(
    request: Request,
    monitor: AGuest,
    session: Signed,
    command: Posted = "",
    machine_id: Posted = "",
) -> Response:
    """Run a command, and show its output."""
    ended: list[Ran] = []

    async def act() -> str:
        require_shown(monitor, machine_id)
        ended.append((command, await _run(monitor, command)))
        return f"Ran {command[:200]!r} in the guest."

    refusal = await recorded(monitor.events, f"run {command[:200]!r} in the guest", act)
    return await guest_page(request, monitor, session, refusal=refusal, ran=next(iter(ended), None))


@router.get("/machines/{machine}/guest/file")
async def read(request: Request, monitor: AGuest, session: Signed, path: str = "") -> Response:
    """A file of the guest."""
    file = tempfile.TemporaryFile(dir=monitor.house.launch.folder)  # noqa: SIM115 - see parts_of

    async def act() -> str:
        async with monitor.machine.guest() as guest:
            await guest.path(path).read_into(file, max_bytes=MOST_FILE)
        file.seek(0)
        return f"Read {path} of the guest."

    if refusal := await recorded(monitor.events, f"read {path} of the guest", act):
        file.close()
        return await guest_page(request, monitor, session, refusal=refusal)
    headers = attachment(PurePosixPath(path).name)
    return StreamingResponse(parts_of(file), media_type="application/octet-stream", headers=headers)


@router.post("/machines/{machine}/guest/file")
async def write(request: Request, monitor: AGuest, session: Signed) -> Response:
    """Write a file to the guest."""

    def check(fields: Mapping[str, str]) -> None:
        oidc_of(request).check_csrf_token(session, fields.get("csrf_token"))

    with tempfile.TemporaryFile(dir=monitor.house.launch.folder) as file:
        upload = Upload(file, MOST_FILE, check)
        try:
            await upload.receive(request)
        except ValueError as error:
            why = as_sentence(error)
            await monitor.events.add("Tried to write a file in the guest.", why)
            return await guest_page(request, monitor, session, refusal=why)
        path = _target(upload)

        async def act() -> str:
            require_shown(monitor, upload.fields.get("machine_id"))
            await asyncio.to_thread(file.seek, 0)
            async with monitor.machine.guest() as guest:
                await guest.path(path).write_from(file)
            return f"Wrote {path} in the guest: {upload.size} bytes."

        refusal = await recorded(monitor.events, f"write {path} in the guest", act)
    if refusal:
        return await guest_page(request, monitor, session, refusal=refusal)
    return RedirectResponse(f"/machines/{monitor.name}/guest?done=guest_file", 303)


@router.post("/machines/{machine}/guest/terminal", dependencies=CHECKED)
async def open_terminal(
    request: Request, monitor: AGuest, session: Signed, machine_id: Posted = ""
) -> Response:
    """Start a shell, and show its terminal."""
    name = uuid.uuid4().hex

    async def act() -> str:
        require_shown(monitor, machine_id)
        async with monitor.machine.guest() as guest:
            shell = ["/bin/sh", "-c", 'exec "$(command -v bash || echo /bin/sh)" -l']
            environment = {"TERM": "xterm-256color"}
            await guest.start(shell, id=name, terminal=TERMINAL, stdin=True, env=environment)
        monitor.terminals[session.sub] = name  # that of the person's next pages
        return "Opened a terminal in the guest."

    if refusal := await recorded(monitor.events, "open a terminal in the guest", act):
        return await guest_page(request, monitor, session, refusal=refusal)
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
    if found.returncode is not None and at >= found.output_bytes:
        raise _ended(monitor, program)
    pieces = _output(monitor, program, at, max(seconds, GLANCE_SECONDS))
    first = await anext(pieces, None)
    lost = first.lost_bytes if first else 0
    return StreamingResponse(
        _in_a_row(first, pieces),
        media_type="application/octet-stream",
        headers={
            **NO_STORE,
            "Stream-Position": str(at + lost),
            "Stream-Reset": str(int(lost > 0)),
        },
    )


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
    except (VmmError, OSError, ValueError) as error:
        why = as_sentence(error) if str(error) else "The program in the guest reads no input."
        return JSONResponse({"refused": why}, 409, headers=NO_STORE)
    return JSONResponse({}, headers=NO_STORE)


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


def _target(upload: Upload) -> str:
    """The path in the guest: that of the form, in which a folder gets the name of the file."""
    path, name = upload.fields.get("path", "").strip() or "/tmp/", upload.filename  # noqa: S108
    return f"{path}{PurePosixPath(name).name}" if path.endswith("/") else path
