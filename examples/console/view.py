"""The pages of one machine: what its monitor says, and every form with its values and faults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from fastapi import Request
from fastapi.responses import HTMLResponse

from examples.console.account import SessionRow, sessions_of
from examples.console.carry_out import NO_FAILURE, Failure, sentence
from examples.console.changes import CHANGES, Change
from examples.console.chart import Chart
from examples.console.console_text import ConsoleText
from examples.console.forms import Texts
from examples.console.hosted import HostedMonitor
from examples.console.identity import User
from examples.console.machine import Machine
from examples.console.monitors import Monitor
from examples.console.pages import page
from fastapi_oidc import OIDC, OIDCSession
from generated_vmm import VmmError
from generated_vmm.process import Piece

TABS: Mapping[str, str] = {
    "overview": "Overview",
    "console": "Console",
    "devices": "Devices",
    "metadata": "Metadata",
    "snapshots": "Snapshots",
    "configuration": "Configuration",
    "calls": "Calls",
}
"""The pages of a machine and their titles."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A change that was tried and failed, with what was typed."""

    change: Change
    typed: Texts
    failure: Failure


@dataclass(frozen=True, slots=True)
class Form:
    """A change as its form shows it; `values` has a text for each `section.field`.

    `not_now` says why there is no form at the moment.
    """

    change: Change
    values: Texts
    not_now: str
    failure: Failure = NO_FAILURE


@dataclass(frozen=True, slots=True)
class Visit:
    """Who looks at which tab, and what the page has to tell besides the machine."""

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


async def visit_of(oidc: OIDC[User], request: Request, session: OIDCSession[User]) -> Visit:
    """The visit that `request` makes."""
    return Visit(
        session=session,
        sessions=await sessions_of(oidc, session),
        path=request.url.path,
        csrf_token=oidc.csrf_token(session),
        script_url=oidc.script_url(request),
    )


async def machine_page(monitor: Monitor, visit: Visit) -> HTMLResponse:
    """One tab, also when the monitor does not answer."""
    try:
        machine, unreachable = await monitor.look(), ""
    except VmmError as error:
        machine, unreachable = None, sentence(monitor, error)
    values = {
        "monitor": monitor,
        "machine": machine,
        "state": machine.state if machine else monitor.stage,
        "unreachable": "" if monitor.stage else unreachable,
        "ended": unreachable if monitor.stage else "",
        "tabs": {name: title for name, title in TABS.items() if _has_tab(monitor, name)},
        "tab": visit.tab,
        "done": visit.done,
        "refusal": visit.refusal,
        **await _read_for_tab(monitor, machine, visit),
        **account(visit),
    }
    return page(f"{visit.tab}.html", values, status=visit.status)


def account(visit: Visit) -> dict[str, object]:
    """What the top bar says of the person who looks, and how the page watches the session."""
    return {
        "user": visit.session.identity,
        "session_ends": datetime.fromtimestamp(visit.session.expires_at, UTC),
        "sessions": visit.sessions,
        "path": visit.path,
        "csrf_token": visit.csrf_token,
        "script_url": visit.script_url,
    }


async def _read_for_tab(
    monitor: Monitor, machine: Machine | None, visit: Visit
) -> dict[str, object]:
    """What this tab alone needs: its forms, and what only it shows."""
    charts, metadata_fault = list[Chart](), ""
    if visit.tab == "overview":
        await monitor.sample()
        charts = monitor.charts()
    if machine and visit.tab == "metadata":
        try:
            machine = replace(machine, metadata=await monitor.metadata())
        except VmmError as error:
            metadata_fault = sentence(monitor, error)
    serial = monitor.serial if isinstance(monitor, HostedMonitor) else None
    written = serial.read() if serial and visit.tab == "console" else Piece(0, b"")
    forms = {
        change.name: _form(monitor, change, machine, visit)
        for change in CHANGES.values()
        if change.tab == visit.tab or not change.sections
    }
    return {
        "forms": forms,
        "power": [form for form in forms.values() if _is_power_button(monitor, form)],
        "charts": charts,
        "metadata_fault": metadata_fault,
        "written": ConsoleText().feed(written.data),
        "position": written.end,
    }


def _has_tab(monitor: Monitor, tab: str) -> bool:
    """The console of a guest is known to who started its monitor."""
    return tab != "console" or monitor.is_hosted


def _is_power_button(monitor: Monitor, form: Form) -> bool:
    """The buttons that make sense now, and the one that was pressed in vain."""
    if form.change.sections or (form.change.hosted and not monitor.is_hosted):
        return False
    return not form.not_now or bool(form.failure.at_button)


def _form(monitor: Monitor, change: Change, machine: Machine | None, visit: Visit) -> Form:
    """What was typed and refused, or else what the monitor has."""
    attempt, state = visit.attempt, machine.state if machine else monitor.stage
    not_now = change.not_now(state) if state else "The monitor does not answer."
    if not visit.session.identity.is_admin:
        not_now = "Only an admin may change this."
    values: dict[str, str] = {}
    for section in change.sections:
        values |= section.values(machine, monitor.suggestions)
    if attempt is None or attempt.change is not change:
        return Form(change, values, not_now)
    typed = {name: attempt.typed.get(name, "") for name in values}
    return Form(change, typed, not_now, attempt.failure)
