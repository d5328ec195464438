"""The page of kernels, disks and snapshots."""

from __future__ import annotations

import asyncio
from typing import Final

from fastapi import HTTPException
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from examples.console.account import CHECKED, Posted, for_those_who
from examples.console.creating import AHost
from examples.console.events import Done, EventLog, recorded
from examples.console.failures import Failure
from examples.console.host import Host
from examples.console.library import SHELVES, Arriving, Place
from examples.console.pages import page, question
from examples.console.view import AVisit, Visit

SNAPSHOTS: Final = "snapshots"
DONE: Final = ("Deleted.", "Uploaded.")


reading = for_those_who("view")
"""Routes for users who may view all machines."""


@reading.get("/images")
async def images(visit: AVisit, host: AHost, done: str = "") -> Response:
    """Show what there is."""
    return await _page(visit, host, done=done)


@reading.get("/images/arriving")
async def arriving(host: AHost) -> HTMLResponse:
    """What is being uploaded, and by whom."""
    return page("arriving.html", {"arriving": host.library.arriving})


writing = for_those_who("administer")
"""Routes for deleting unused files."""


@writing.post("/images/delete", dependencies=CHECKED)
async def delete(
    visit: AVisit, host: AHost, place: Posted = "", thing: Posted = "", confirmed: Posted = ""
) -> Response:
    """Delete an unused file, or a snapshot."""
    if place not in (*SHELVES, SNAPSHOTS):
        raise HTTPException(422, "There are no such things.")
    if not confirmed:
        typed = {"place": place, "thing": thing, "csrf_token": visit.csrf_token}
        return question("Delete it? It cannot be brought back.", "Delete", visit.request, typed)
    if failure := await delete_one(host, place, thing):
        return await _page(visit, host, failure=failure)
    return RedirectResponse("/images?done=Deleted.", 303)


@writing.post("/images/upload")
async def upload(visit: AVisit, host: AHost, place: Place) -> Response:
    """Receive a file, and give it its name when it is whole."""
    body, by = visit.request.scope["body"], visit.session.identity.name

    async def act() -> Done:
        with host.library.receiving(Arriving(place, body, by)):
            async with visit.form_with_file() as (_, file):
                name, size = file.filename or "", file.size
                await asyncio.to_thread(host.library.add, place, name, file.file)
        return Done(f"Uploaded {name} to the {place}: {size} bytes.")

    if failure := await recorded(EventLog("", host.records), f"upload to the {place}", act):
        return await _page(visit, host, failure=failure)
    return RedirectResponse("/images?done=Uploaded.", 303)


async def delete_one(host: Host, place: str, thing: str) -> Failure | None:
    """Deletes an unused file, or a snapshot, which is recorded; returns why it was not done."""

    async def act() -> Done:
        return Done(f"Deleted {await _deleted(host, place, thing)} of the {place}.")

    return await recorded(EventLog("", host.records), f"delete one of the {place}", act)


async def _deleted(host: Host, place: str, thing: str) -> str:
    """Deletes one thing, and returns its name. Raises ValueError, OSError and MachineError."""
    for shelf in SHELVES:
        if place == shelf:
            return await asyncio.to_thread(host.library.delete, shelf, thing, host.users_of)
    snapshot = host.snapshot(thing)
    name = snapshot.name
    await snapshot.delete()
    return name


async def _page(
    visit: Visit, host: Host, *, done: str = "", failure: Failure | None = None
) -> Response:
    things = {
        place: await asyncio.to_thread(host.library.things, place, host.users_of)
        for place in SHELVES
    }
    values = {
        "things": things,
        "snapshots": await asyncio.to_thread(host.snapshots),
        "shelves": SHELVES,
        "arriving": host.library.arriving,
        "folders": host.library.folders,
        "done": done if done in DONE else "",
    }
    return visit.page("images.html", values, failure)
