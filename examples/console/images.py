"""The page of kernels, disks and snapshots."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from fastapi import HTTPException, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from examples.console.account import CHECKED, Posted, Signed, for_those_who, oidc_of
from examples.console.creating import AHost
from examples.console.events import EventLog, recorded
from examples.console.host import Host
from examples.console.identity import User
from examples.console.library import SHELVES
from examples.console.pages import page, question
from examples.console.snapshots import snapshots_in
from examples.console.uploads import Upload
from examples.console.view import account, visit_of
from fastapi_oidc import OIDCSession

SNAPSHOTS: Final = "snapshots"
DONE: Final = ("Deleted.", "Uploaded.")
MOST_IMAGE: Final = 64 << 30
"""Bytes of a kernel or a disk that is uploaded."""


reading = for_those_who("view")
"""Routes for users who may view all machines."""


@reading.get("/images")
async def images(request: Request, session: Signed, host: AHost, done: str = "") -> Response:
    """Show what there is."""
    return await _page(request, session, host, done=done)


@reading.get("/images/arriving")
async def arriving(host: AHost, arrived: str = "") -> HTMLResponse:
    """What is being uploaded, by whom; and whether the page is older than a file."""
    is_old = arrived not in ("", str(host.library.arrived))
    return page("arriving.html", {"arriving": host.library.arriving, "is_old": is_old})


writing = for_those_who("administer")
"""Routes for deleting unused files."""


@writing.post("/images/delete", dependencies=CHECKED)
async def delete(
    request: Request,
    session: Signed,
    host: AHost,
    place: Posted = "",
    thing: Posted = "",
    confirmed: Posted = "",
) -> Response:
    """Delete an unused file, or a snapshot."""
    if place not in (*SHELVES, SNAPSHOTS):
        raise HTTPException(422, "There are no such things.")
    if not confirmed:
        typed = {"place": place, "thing": thing, "csrf_token": oidc_of(request).csrf_token(session)}
        return question("Delete it? It cannot be brought back.", "Delete", request, typed)

    if why := await delete_one(host, place, thing):
        return await _page(request, session, host, refusal=why)
    return RedirectResponse("/images?done=Deleted.", 303)


@writing.post("/images/upload")
async def upload(request: Request, session: Signed, host: AHost, place: str = "") -> Response:
    """Receive a file, and give it its name when it is whole."""
    shelf = next((shelf for shelf in SHELVES if shelf == place), None)
    if shelf is None:
        raise HTTPException(422, "There are no such things.")

    length = request.headers.get("content-length", "")
    whole = int(length) if length.isdecimal() else 0

    async def act() -> str:
        with host.library.receiving(shelf, session.identity.name, whole) as arriving:

            def check(fields: Mapping[str, str]) -> None:
                oidc_of(request).check_csrf_token(session, fields.get("csrf_token"))
                arriving.name = form.filename

            form = Upload(arriving.file, MOST_IMAGE, check)
            await form.receive(request)
            await asyncio.to_thread(arriving.accept)
        return f"Uploaded {form.filename} to the {shelf}: {form.size} bytes."

    log = EventLog("", host.records)
    if why := await recorded(log, f"upload to the {shelf}", act):
        return await _page(request, session, host, refusal=why)
    return RedirectResponse("/images?done=Uploaded.", 303)


async def delete_one(host: Host, place: str, thing: str) -> str:
    """Deletes an unused file, or a snapshot, which is recorded; returns why it was not done."""

    async def act() -> str:
        return f"Deleted {await _deleted(host, place, thing)} of the {place}."

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
    request: Request,
    session: OIDCSession[User],
    host: Host,
    *,
    done: str = "",
    refusal: str = "",
) -> Response:
    things = {
        place: await asyncio.to_thread(host.library.things, place, host.users_of)
        for place in SHELVES
    }
    values = {
        "things": things,
        "snapshots": await asyncio.to_thread(snapshots_in, host),
        "shelves": SHELVES,
        "arriving": host.library.arriving,
        "arrived": host.library.arrived,
        "is_old": False,
        "folders": host.library.folders,
        "strays": await asyncio.to_thread(lambda: host.library.strays),
        "done": done if done in DONE else "",
        "refusal": refusal,
        **account(await visit_of(request, session)),
    }
    return page("images.html", values, status=409 if refusal else 200)
