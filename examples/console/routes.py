"""The pages, and the one route for all changes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Final

from fastapi import APIRouter, Depends, HTTPException, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from examples.console.account import CHECKED, Signed, Typed, User
from examples.console.board import Board, Row
from examples.console.carry_out import PageState, carry_out
from examples.console.changes import CHANGES, CREATE, CREATE_FROM_SNAPSHOT, Change
from examples.console.host import Host
from examples.console.monitors import Monitor, Monitors
from examples.console.pages import CONFIRMED, NO_STORE, page, question
from examples.console.shown import LISTED, Attempt
from examples.console.view import AVisit, Visit, machine_page
from examples.console.words import TABS
from fastapi_oidc import Code, SessionError


def monitors_of(request: Request) -> Monitors:
    """Every monitor of this console."""
    monitors: Monitors = request.app.state.monitors
    return monitors


def viewed(monitors: Monitors, machine: str, user: User) -> Monitor:
    """The machine of that name; 404 if there is none that the user may view."""
    monitor = monitors.get(machine)
    if monitor is None or not user.may("view", machine):
        raise HTTPException(404, "There is no such machine.")
    return monitor


def monitor_of(request: Request, machine: str, session: Signed) -> Monitor:
    """The monitor that the path names, for a signed-in user; 404 if there is none."""
    return viewed(monitors_of(request), machine, session.identity)


def change_of(change: str) -> Change:
    """The change that the path names; 404 if there is none."""
    if change not in CHANGES:
        raise HTTPException(404, "There is no such page.")
    return CHANGES[change]


async def rows_of(board: Board, monitors: Monitors, user: User, find: str) -> list[Row]:
    """The machines whose name or state contains the text, and those that are being made."""
    text = find.strip().lower()
    found = [
        (monitor, known)
        for monitor, known in await monitors.states()
        if text in f"{monitor.name} {known.state}".lower() and user.may("view", monitor.name)
    ]
    made = monitors.being_made if isinstance(monitors, Host) else []
    return board.rows(found, [one for one in made if user.may("view", one.name)], user)


DONE: Final = {
    change.name: change.done for change in (*CHANGES.values(), CREATE, CREATE_FROM_SNAPSHOT)
} | {"guest_file": "The file is in the guest."}
"""The message after a change, by its name."""

BOARD: Final = Board()
At = Annotated[str, Query(max_length=40)]
AMonitor = Annotated[Monitor, Depends(monitor_of)]
AChange = Annotated[Change, Depends(change_of)]


pages = APIRouter()
"""Pages, and before them the parts that they poll."""


@pages.get("/states")
async def states(request: Request, session: Signed, find: str = "", at: At = "") -> JSONResponse:
    """The rows that have changed since a viewer\'s last response."""
    rows = await rows_of(BOARD, monitors_of(request), session.identity, find)
    return JSONResponse(BOARD.changes(rows, at), headers=NO_STORE)


@pages.get("/machines/{machine}/state")
async def state(monitor: AMonitor) -> JSONResponse:
    """What a page compares with what it shows."""
    shown = f"{await monitor.state()}|{monitor.run}"
    return JSONResponse({"shown": shown}, headers=NO_STORE)


@pages.get("/machines/{machine}/charts")
async def charts(monitor: AMonitor) -> HTMLResponse:
    """The charts of a machine."""
    await monitor.sample()
    return page("charts.html", {"charts": monitor.charts()})


@pages.get("/host")
async def host(request: Request) -> HTMLResponse:
    """The charts of the host."""
    return page("host.html", {"charts": monitors_of(request).host_use.charts()})


@pages.get("/")
async def list_machines(visit: AVisit, done: str = "", find: str = "") -> Response:
    """Show the list."""
    return await list_page(visit, done, find)


@pages.get("/bulk")
async def reloaded() -> Response:
    """Show the list, without repeating what was done."""
    return RedirectResponse("/", 303)


async def some_operator(request: Request, session: Signed) -> None:
    """Refuses users who may operate no machine."""
    if not any(session.identity.may("operate", one.name) for one in monitors_of(request).all):
        raise SessionError(Code.SESSION_FORBIDDEN, "no machine that the user may operate")


@pages.post("/bulk", dependencies=[Depends(some_operator), *CHECKED])
async def bulk(request: Request, visit: AVisit) -> Response:
    """Change several machines, and tell what came of each."""
    monitors, user, form = monitors_of(request), visit.session.identity, await request.form()
    change = str(form.get("change", ""))
    names = list(dict.fromkeys(str(one) for one in form.getlist("machine")))
    if change not in LISTED:
        raise HTTPException(422, "There is no such change.")
    if CHANGES[change].confirm and not form.get(CONFIRMED):
        shown = {"csrf_token": visit.csrf_token, "change": change}
        asked = f"{CHANGES[change].button} {', '.join(names)}?"
        return question(asked, CHANGES[change].button, request, shown, {"machine": names})
    told = await asyncio.gather(
        *(_one_of_many(monitors, user, CHANGES[change], name) for name in names)
    )
    return await list_page(visit, "", "", told)


async def list_page(
    visit: Visit, done: str, find: str, told: Sequence[tuple[str, str]] = ()
) -> Response:
    """The list, and what was `told` of several machines."""
    monitors, user = monitors_of(visit.request), visit.session.identity
    values = {
        "rows": await rows_of(BOARD, monitors, user, find),
        "at": BOARD.at,
        "find": find,
        "can_create": isinstance(monitors, Host) and user.may("administer"),
        "done": DONE.get(done, ""),
        "host_charts": monitors.host_use.charts(),
        "has_any": bool(monitors.all),
        "is_simulated": isinstance(monitors, Host) and monitors.launch.is_simulated,
        "bulk": [CHANGES[name] for name in LISTED],
        "told": told,
    }
    return visit.page("machines.html", values)


@pages.get("/machines/{machine}")
@pages.get("/machines/{machine}/{tab}")
async def tab(monitor: AMonitor, visit: AVisit, tab: str = "overview", done: str = "") -> Response:
    """Show a page of a machine."""
    if tab not in TABS:
        # The URL of a failed change, entered or reloaded.
        return RedirectResponse(f"/machines/{monitor.name}/{change_of(tab).tab}", 303)
    return await machine_page(monitor, visit, tab, done=DONE.get(done, ""))


async def _one_of_many(
    monitors: Monitors, user: User, change: Change, name: str
) -> tuple[str, str]:
    """Carries a change out for one of the chosen machines; returns what to tell, and its kind."""
    monitor = monitors.get(name)
    if monitor is None or not user.may("view", name):
        return f"{name}: There is no such machine.", "bad"
    failure = await carry_out(monitor, change, {}, user)
    if failure is None:
        return f"{name}: {change.done}", "good"
    return f"{name}: {failure.why}", "bad"


changes = APIRouter(dependencies=[Depends(monitor_of), *CHECKED])
"""The route of all changes of a machine; each change says which right it needs."""


@changes.post("/machines/{machine}/{change}")
async def change_machine(
    request: Request, monitor: AMonitor, change: AChange, visit: AVisit, typed: Typed
) -> Response:
    """Carry a change out, and go on to the page that shows it."""
    user = visit.session.identity
    is_asked = change.confirm and user.may(change.right, monitor.name)
    if is_asked and not typed.get(CONFIRMED):
        shown = {**typed, "csrf_token": visit.csrf_token}
        return question(f"{monitor.name}: {change.confirm}", change.button, request, shown)
    typed.pop(CONFIRMED, None)
    tab = typed.pop("tab", "")
    page = PageState.parse(typed.pop("page", ""))
    failure = await carry_out(monitor, change, typed, user, page)
    shown_at = tab if tab in TABS else change.tab
    if monitors_of(request).get(monitor.name) is None:
        return RedirectResponse(f"/?done={change.name}", 303)
    if failure is not None:
        attempt = Attempt(change, typed, failure)
        return await machine_page(monitor, visit, shown_at, attempt=attempt)
    name = typed.get(change.leads_on, "").strip() or monitor.name
    onward = "/" if tab == "list" else f"/machines/{name}/{shown_at}?done={change.name}"
    return RedirectResponse(onward, 303)
