"""The guest's console: what it wrote so far, what it writes, and what an admin types."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Annotated, Final

from fastapi import APIRouter, Depends, HTTPException, Request
from fastapi.responses import RedirectResponse, Response, StreamingResponse

from examples.console.account import Signed, for_admins, for_all
from examples.console.console_text import BEFORE, ConsoleText
from examples.console.events import on_behalf_of
from examples.console.hosted import HostedMonitor
from examples.console.identity import User
from examples.console.pages import NO_STORE
from examples.console.routes import AMonitor
from examples.console.view import machine_page, visit_of
from fastapi_oidc import OIDC, SessionError
from generated_vmm import VmmError
from generated_vmm.process import AsyncSerial

ASK_SECONDS: Final = 5.0
"""How often a stream asks whether its session still holds."""
LONGEST_INPUT: Final = 4096
KEYS: Final = {"ctrl-c": b"\x03", "ctrl-d": b"\x04"}


def hosted_of(monitor: AMonitor) -> HostedMonitor:
    """The machine that the path names; 404 when its monitor is none of this console."""
    if not isinstance(monitor, HostedMonitor):
        raise HTTPException(404, "This console did not start this monitor.")
    return monitor


AHosted = Annotated[HostedMonitor, Depends(hosted_of)]


def reading(oidc: OIDC[User]) -> APIRouter:
    """What everybody who is signed in may see."""
    router = for_all()

    @router.get("/machines/{machine}/console/stream")
    async def stream(request: Request, monitor: AHosted, since: int = 0) -> Response:
        serial = monitor.serial
        if serial is None:
            return Response(status_code=204)  # which tells the browser not to ask again
        events = _events(oidc, request, serial, _resumed(request, since))
        return StreamingResponse(events, media_type="text/event-stream", headers=NO_STORE)

    return router


def writing(oidc: OIDC[User]) -> APIRouter:
    """What an admin types."""
    router = for_admins(oidc)

    @router.post("/machines/{machine}/console/input")
    async def type_in(request: Request, monitor: AHosted, session: Signed) -> Response:
        form = {name: str(value) for name, value in (await request.form()).items()}
        oidc.check_csrf_token(session, form.get("csrf_token"))
        try:
            with on_behalf_of(session.identity.person):
                monitor.events.add("Typed into the guest's console.")
            await _write(monitor, _typed(form.get("key", ""), form.get("line", "")))
        except VmmError as error:
            visit = await visit_of(oidc, request, session)
            refused = replace(visit, tab="console", refusal=str(error), status=502)
            return await machine_page(monitor, refused)
        return RedirectResponse(f"/machines/{monitor.name}/console", 303)

    return router


def _resumed(request: Request, since: int) -> int:
    """Where a browser that comes back goes on."""
    last = request.headers.get("last-event-id", "")
    return int(last) if last.isascii() and last.isdecimal() and len(last) < 19 else max(since, 0)


def _typed(key: str, line: str) -> bytes:
    return KEYS.get(key) or line.encode()[:LONGEST_INPUT] + b"\n"


async def _write(monitor: HostedMonitor, typed: bytes) -> None:
    if monitor.serial is not None:
        await monitor.serial.write(typed)


async def _events(
    oidc: OIDC[User], request: Request, serial: AsyncSerial, position: int
) -> AsyncIterator[str]:
    """Text as server-sent events until the monitor or the session ends."""
    text = ConsoleText()
    before = serial.read(max(position - BEFORE, 0))
    text.feed(before.data[: max(position - before.start, 0)])
    yield ": the guest's console\n\n"
    while await _still_signed_in(oidc, request):
        try:
            if not await serial.async_wait(position, ASK_SECONDS):
                yield "event: ended\ndata:\n\n"
                return
        except TimeoutError:
            yield ":\n\n"
            continue
        piece = serial.read(position)
        position = piece.end
        yield f"id: {position}\ndata: {json.dumps(text.feed(piece.data))}\n\n"


async def _still_signed_in(oidc: OIDC[User], request: Request) -> bool:
    try:
        return await oidc.is_still_signed_in(request)
    except SessionError:
        return False
