"""The page of kernels, disks and snapshots."""

from __future__ import annotations

import asyncio
from typing import Final

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import RedirectResponse, Response

from examples.console.account import Posted, Signed, for_those_who
from examples.console.asking import question
from examples.console.creating import AHost
from examples.console.events import EventLog, on_behalf_of
from examples.console.host import Host
from examples.console.identity import User
from examples.console.library import SHELVES
from examples.console.pages import page
from examples.console.records import RecordsError
from examples.console.snapshots import snapshots_in
from examples.console.view import account, visit_of
from fastapi_oidc import OIDC, OIDCSession
from generated_vmm.machines import MachineError

SNAPSHOTS: Final = "snapshots"
NOT_RECORDED_TEXT: Final = "Nothing was deleted: it could not be recorded. Is the disk full?"


def reading(oidc: OIDC[User]) -> APIRouter:
    """Routes for users who may view all machines."""
    router = for_those_who("view")

    @router.get("/images")
    async def images(request: Request, session: Signed, host: AHost, done: str = "") -> Response:
        return await _page(oidc, request, session, host, done=done)

    return router


def writing(oidc: OIDC[User]) -> APIRouter:
    """Routes for deleting unused files."""
    router = for_those_who("administer")

    @router.post("/images/delete")
    async def delete(
        request: Request,
        session: Signed,
        host: AHost,
        place: Posted = "",
        thing: Posted = "",
        confirmed: Posted = "",
        csrf_token: Posted = "",
    ) -> Response:
        oidc.check_csrf_token(session, csrf_token)
        if place not in (*SHELVES, SNAPSHOTS):
            raise HTTPException(422, "There are no such things.")
        if not confirmed:
            typed = {"place": place, "thing": thing, "csrf_token": csrf_token}
            return question("Delete it? It cannot be brought back.", "Delete", request, typed)
        log = EventLog("", host.records)
        with on_behalf_of(session.identity.person):
            try:
                event = log.begin(f"delete one of the {place}")
            except RecordsError:
                return await _page(oidc, request, session, host, refusal=NOT_RECORDED_TEXT)
            try:
                name = await _deleted(host, place, thing)
            except (ValueError, OSError, MachineError) as error:
                log.finish(event, f"Tried to delete one of the {place}.", str(error))
                return await _page(oidc, request, session, host, refusal=str(error))
            log.finish(event, f"Deleted {name} of the {place}.")
        return RedirectResponse("/images?done=deleted", 303)

    return router


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
    oidc: OIDC[User],
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
        "folders": host.library.folders,
        "done": "Deleted." if done == "deleted" else "",
        "refusal": refusal,
        **account(await visit_of(oidc, request, session)),
    }
    return page("images.html", values, status=409 if refusal else 200)
