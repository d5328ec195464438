"""The pages of one machine: its state, and every form with its values and faults."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from fastapi import HTTPException, Request
from fastapi.responses import HTMLResponse

from examples.console.access import Accesses
from examples.console.account import SessionRow, oidc_of, sessions_of
from examples.console.carry_out import explained
from examples.console.changes import CHANGES, PANELS
from examples.console.chart import Chart
from examples.console.host import Host
from examples.console.hosted import HostedMonitor
from examples.console.identity import RIGHTS, User
from examples.console.machine import Machine
from examples.console.meanwhile import PageState
from examples.console.monitors import Monitor
from examples.console.pages import page
from examples.console.shown import Attempt, Desk, Form
from examples.console.snapshots import Snapshot, snapshots_in
from examples.console.terminal import SIZES
from fastapi_oidc import OIDCSession
from generated_vmm.guest import CompletedProgram

TABS: Mapping[str, str] = {
    "overview": "Overview",
    "console": "Console",
    "guest": "Guest",
    "devices": "Devices",
    "memory": "Memory",
    "metadata": "Metadata",
    "snapshots": "Snapshots",
    "restart": "Start and restart",
    "configuration": "Configuration",
}
"""The pages of a machine and their titles."""
OF_HOSTED: Final = frozenset({"console", "guest", "snapshots", "restart"})
"""The pages that only a machine of this console has."""
PANEL_TABS: Final = frozenset(panel.tab for panel in PANELS)


@dataclass(frozen=True, slots=True)
class Visit:
    """The user and the tab of a request, and messages of the page."""

    session: OIDCSession[User]
    sessions: Sequence[SessionRow]
    path: str
    csrf_token: str
    script_url: str
    tab: str = "overview"
    attempt: Attempt | None = None
    done: str = ""
    refusal: str = ""
    status: int = 200
    starts_machines: bool = False
    ran: tuple[str, CompletedProgram] | None = None
    terminal: str = ""
    accesses: Accesses | None = None


async def visit_of(request: Request, session: OIDCSession[User], **members: Any) -> Visit:
    """The visit that `request` makes, with further members."""
    return Visit(
        session=session,
        sessions=await sessions_of(request, session),
        path=request.url.path,
        csrf_token=oidc_of(request).csrf_token(session),
        script_url=oidc_of(request).script_url(request),
        starts_machines=isinstance(request.app.state.monitors, Host),
        terminal=request.query_params.get("terminal", ""),
        accesses=request.app.state.accesses,
        **members,
    )


async def machine_page(monitor: Monitor, visit: Visit) -> HTMLResponse:
    """One tab, even if the monitor does not respond; 404 for a tab that it does not have."""
    if visit.tab in ("console", "guest") and not monitor.is_hosted:
        raise HTTPException(404, "This machine has no such page.")
    machine = await monitor.look()
    operation = monitor.operation
    values = {
        "monitor": monitor,
        "machine": machine,
        "state": machine.state,
        "unreachable": explained(monitor, machine.fault).sentence if machine.fault else "",
        "busy": f"Busy: {operation.in_words}." if operation is not None else "",
        "tabs": {name: title for name, title in TABS.items() if _has_tab(monitor, name)},
        "tab": visit.tab,
        "title": TABS[visit.tab],
        "done": visit.done,
        **await _read_for_tab(monitor, machine, visit),
        **account(visit),
        "path": f"/machines/{monitor.name}/{visit.tab}",  # of the page, also after a form
    }
    template = "panels.html" if visit.tab in PANEL_TABS else f"{visit.tab}.html"
    return page(template, values, status=visit.status)


def snapshots_of(monitor: Monitor, tab: str) -> Sequence[Snapshot]:
    """The snapshots of a machine, the newest first."""
    if tab != "snapshots" or not isinstance(monitor, HostedMonitor):
        return []
    return [one for one in snapshots_in(monitor.house) if one.machine == monitor.key]


def account(visit: Visit) -> dict[str, object]:
    """The top bar's values for the user, and for watching the session."""
    return {
        "user": visit.session.identity,
        "starts_machines": visit.starts_machines,
        "session_ends": datetime.fromtimestamp(visit.session.expires_at, UTC),
        "sessions": visit.sessions,
        "path": visit.path,
        "csrf_token": visit.csrf_token,
        "script_url": visit.script_url,
    }


async def _read_for_tab(monitor: Monitor, machine: Machine, visit: Visit) -> dict[str, object]:
    """The values of this tab: its forms, and what only it shows."""
    charts = list[Chart]()
    if visit.tab == "overview":
        if machine.fault is None:  # no second request to a silent monitor
            await monitor.sample()
        charts = monitor.charts()
    screen = list[str]()
    if isinstance(monitor, HostedMonitor) and visit.tab == "console":
        screen = await monitor.screen()
    giving = None
    if visit.accesses and isinstance(monitor, HostedMonitor) and visit.tab == "guest":
        giving = await visit.accesses.shown(monitor, visit.session)
    desk = Desk(monitor, machine, visit.session.identity, visit.attempt)
    forms = {
        change.name: desk.form(change)
        for change in CHANGES.values()
        if change.tab == visit.tab or not change.sections
    }
    shown = [
        await desk.shown(panel) for panel in PANELS if panel.tab == visit.tab and desk.has(panel)
    ]
    return {
        "forms": forms,
        "power": [form for form in forms.values() if _is_power_button(monitor, form)],
        "can_create": isinstance(monitor, HostedMonitor)
        and visit.session.identity.may("administer"),
        "may": {right: desk.may(right) for right in RIGHTS},
        "panels": [one for one in shown if one.panel.none or not one.is_empty],
        "refusal": visit.refusal or desk.refusal_without_place(visit.tab),
        "charts": charts,
        "snapshots": await asyncio.to_thread(snapshots_of, monitor, visit.tab),
        "screen": screen,
        "sizes": SIZES,
        "ran": visit.ran,
        "giving": giving,
        "agent_terminal": _terminal(monitor, visit),
        "page": PageState(machine.state, monitor.run, time.time()),
    }


def _terminal(monitor: Monitor, visit: Visit) -> str:
    """The terminal that the URL names, or else the one that the person has opened last."""
    named = visit.terminal if visit.terminal.isalnum() else ""
    opened = monitor.terminals if isinstance(monitor, HostedMonitor) else {}
    return named or opened.get(visit.session.sub, "")


def _has_tab(monitor: Monitor, tab: str) -> bool:
    """Whether there is such a page: some are only of machines that this console starts."""
    if not isinstance(monitor, HostedMonitor):
        return tab not in OF_HOSTED
    return tab != "guest" or monitor.definition.configuration.vsock is not None


def _is_power_button(monitor: Monitor, form: Form) -> bool:
    """The currently useful buttons, and the one whose change failed."""
    change = form.change
    if change.tab != "overview" or change.sections or change.act_of(monitor) is None:
        return False
    return not form.not_now or bool(form.failure.why)
