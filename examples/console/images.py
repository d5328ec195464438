"""The page of kernels, disks and snapshots."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Form, HTTPException, Request
from fastapi.responses import RedirectResponse, Response

from examples.console.account import Posted, Signed, for_admins, for_all
from examples.console.creating import AHost
from examples.console.host import Host
from examples.console.identity import User
from examples.console.library import SHELVES
from examples.console.pages import page
from examples.console.view import account, visit_of
from fastapi_oidc import OIDC, OIDCSession


def reading(oidc: OIDC[User]) -> APIRouter:
    """Routes for every signed-in user."""
    router = for_all()

    @router.get("/images")
    async def images(request: Request, session: Signed, host: AHost, done: str = "") -> Response:
        return await _page(oidc, request, session, host, done=done)

    return router


def writing(oidc: OIDC[User]) -> APIRouter:
    """Routes for deleting unused files."""
    router = for_admins(oidc)

    @router.post("/images/delete")
    async def delete(
        request: Request,
        session: Signed,
        host: AHost,
        place: Annotated[str, Form()] = "",
        name: Posted = "",
        csrf_token: Posted = "",
    ) -> Response:
        oidc.check_csrf_token(session, csrf_token)
        shelf = next((one for one in SHELVES if one == place), None)
        if shelf is None:
            raise HTTPException(422, "There are no such things.")
        try:
            host.library.delete(shelf, name, host.users_of)
        except ValueError as error:
            return await _page(oidc, request, session, host, refusal=str(error))
        host.note(f"Deleted {name} of the {place}.", session.identity.person)
        return RedirectResponse("/images?done=deleted", 303)

    return router


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
        "shelves": SHELVES,
        "folders": host.library.folders,
        "done": "Deleted." if done == "deleted" else "",
        "refusal": refusal,
        **account(await visit_of(oidc, request, session)),
    }
    return page("images.html", values, status=409 if refusal else 200)
