"""The guest's console: its screen, its output, and an admin's input."""

from __future__ import annotations

import time
from typing import Annotated, Final

from fastapi import APIRouter, Depends, HTTPException, Query
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from examples.console.account import CHECKED, Typed, for_those_who
from examples.console.carry_out import PageState
from examples.console.events import person
from examples.console.failures import CONFLICT, Failure, failed
from examples.console.hosted import HostedMonitor
from examples.console.output import SIZES, STREAM_SECONDS
from examples.console.pages import answer, attachment, page, streamed
from examples.console.routes import AMonitor
from examples.console.view import AVisit, machine_page
from generated_vmm import VmmError

LONGEST_INPUT: Final = 4096
NOTED_SECONDS: Final = 300.0
"""Seconds until continued typing is recorded again."""
KEYS: Final = {"ctrl-c": b"\x03", "ctrl-d": b"\x04", "tab": b"\t", "up": b"\x1b[A"}


def hosted_of(monitor: AMonitor) -> HostedMonitor:
    """The machine that the path names; 404 if this console did not start its monitor."""
    if not isinstance(monitor, HostedMonitor):
        raise HTTPException(404, "This console did not start this monitor.")
    return monitor


Seconds = Annotated[float, Query(ge=0, le=STREAM_SECONDS)]
AHosted = Annotated[HostedMonitor, Depends(hosted_of)]


reading = APIRouter()
"""Routes for every signed-in user."""


@reading.get("/machines/{machine}/console/screen")
async def screen(monitor: AHosted) -> HTMLResponse:
    """The screen, for pages without script."""
    return page("screen.html", {"screen": await monitor.screen()})


@reading.get("/machines/{machine}/console/stream")
async def stream(
    monitor: AHosted, position: str = "", seconds: Seconds = STREAM_SECONDS
) -> Response:
    """The output from a position on, for some seconds."""
    feed = monitor.feed
    begin, is_new = feed.start(position)
    return streamed(feed.follow(begin, seconds), feed.position(begin), is_new=is_new)


@reading.get("/machines/{machine}/console/log")
async def log(monitor: AHosted) -> Response:
    """All stored output, as a file."""
    written, headers = monitor.scrollback.read(), attachment(f"{monitor.name}.log")
    return Response(written, media_type="text/plain", headers=headers)


writing = for_those_who("operate")
"""Routes for operators: input, and the size of the screen."""


async def note(monitor: HostedMonitor) -> None:
    """Records typing as one event, not one for each key."""
    now, who = time.monotonic(), person().sub
    if now - monitor.typed_at.get(who, -NOTED_SECONDS) >= NOTED_SECONDS:
        monitor.typed_at[who] = now
        await monitor.events.add("Typed into the guest's console.")


@writing.post("/machines/{machine}/console/input", dependencies=CHECKED)
async def type_in(monitor: AHosted, visit: AVisit, form: Typed) -> Response:
    """Pass on what was typed, and tell scripts and pages what came of it."""
    failure = await _type(monitor, form)
    if "text/html" not in visit.request.headers.get("accept", ""):
        return answer(failure)
    if failure is None:
        return RedirectResponse(f"/machines/{monitor.name}/console", 303)
    return await machine_page(monitor, visit, "console", failure=failure)


async def _type(monitor: HostedMonitor, form: dict[str, str]) -> Failure | None:
    if PageState.parse(form.get("page", "")).run != monitor.run:
        why = "Nothing was typed: this page is of an earlier start of the machine. Try again."
        return Failure(CONFLICT, why)
    await note(monitor)  # some of it may be typed, whatever comes of the rest
    try:
        if monitor.serial is not None:
            await monitor.serial.write(_typed(form))
    except VmmError as error:
        return failed(error)
    return None


@writing.post("/machines/{machine}/console/size", dependencies=CHECKED)
async def resize(monitor: AHosted, form: Typed) -> Response:
    """Make the screen larger or smaller."""
    sizes = {f"{columns}x{rows}": (columns, rows) for columns, rows in SIZES}
    if form.get("size") in sizes:
        monitor.screen_size = sizes[form["size"]]
    return RedirectResponse(f"/machines/{monitor.name}/console", 303)


def _typed(form: dict[str, str]) -> bytes:
    """The bytes of a key, a line or a text for the guest."""
    if key := KEYS.get(form.get("key", "")):
        return key
    text = form["text"] if "text" in form else form.get("line", "") + "\n"
    return text.encode()[:LONGEST_INPUT]
