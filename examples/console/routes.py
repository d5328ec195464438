"""The pages, and the one route through which everything is changed."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from examples.console.carry_out import carry_out
from examples.console.changes import CHANGES, Change
from examples.console.identity import User
from examples.console.monitors import Monitor, Monitors
from examples.console.pages import page
from examples.console.view import Attempt, Visit, account, machine_page
from fastapi_oidc import OIDC, OIDCSession, require_auth

Signed = Annotated[OIDCSession[User], Depends(require_auth)]


def monitors_of(request: Request) -> Monitors:
    """Every monitor of this console."""
    monitors: Monitors = request.app.state.monitors
    return monitors


def monitor_of(request: Request, machine: str) -> Monitor:
    """The monitor that the path names; 404 when there is none."""
    monitor = monitors_of(request).get(machine)
    if monitor is None:
        raise HTTPException(404, "There is no such machine.")
    return monitor


def change_of(change: str) -> Change:
    """The change that the path names; 404 when there is none."""
    if change not in CHANGES:
        raise HTTPException(404, "There is no such change.")
    return CHANGES[change]


AMonitor = Annotated[Monitor, Depends(monitor_of)]
AChange = Annotated[Change, Depends(change_of)]


def pages(oidc: OIDC[User]) -> APIRouter:
    """What everybody who is signed in may look at."""
    router = APIRouter()

    @router.get("/")
    async def machines(request: Request, session: Signed) -> Response:
        states = await monitors_of(request).states()
        if len(states) == 1:
            return RedirectResponse(f"/machines/{states[0][0].name}", 303)
        return page("machines.html", {"machines": states, **account(session)})

    @router.get("/machines/{machine}")
    async def machine(monitor: AMonitor, session: Signed, done: str = "") -> HTMLResponse:
        told = CHANGES[done].done if done in CHANGES else ""
        return await machine_page(monitor, Visit(session, oidc.csrf_token(session), done=told))

    @router.get("/machines/{machine}/state", dependencies=[Depends(require_auth)])
    async def state(monitor: AMonitor) -> JSONResponse:
        return JSONResponse({"state": await monitor.state()}, headers={"Cache-Control": "no-store"})

    @router.get("/machines/{machine}/{change}", dependencies=[Depends(require_auth)])
    async def back_from_change(monitor: AMonitor, change: AChange) -> RedirectResponse:
        # The address of a page that answered a change which failed, entered or reloaded.
        return RedirectResponse(f"/machines/{monitor.name}", 303)

    return router


def changes(oidc: OIDC[User]) -> APIRouter:
    """What an admin may do; anybody else is refused before a form is read."""
    require_admin = oidc.require(lambda user: user.is_admin)
    router = APIRouter(dependencies=[Depends(require_admin)])

    @router.post("/machines/{machine}/{change}")
    async def change(
        request: Request, monitor: AMonitor, change: AChange, session: Signed
    ) -> Response:
        typed = {name: str(value) for name, value in (await request.form()).items()}
        oidc.check_csrf_token(session, typed.pop("csrf_token", None))
        failure = await carry_out(monitor, change, typed)
        if failure is None:
            return RedirectResponse(f"/machines/{monitor.name}?done={change.name}", 303)
        visit = Visit(
            session,
            oidc.csrf_token(session),
            attempt=Attempt(change, typed, failure),
            status=failure.status,
        )
        return await machine_page(monitor, visit)

    return router
