"""The page of one machine: what the monitor says, and every form with its values and faults."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

from fastapi.responses import HTMLResponse

from examples.console.carry_out import Failure, sentence
from examples.console.changes import CHANGES, Change
from examples.console.forms import Texts
from examples.console.identity import User
from examples.console.monitors import Machine, Monitor, look
from examples.console.pages import page
from fastapi_oidc import OIDCSession
from generated_vmm import FullVmConfiguration

POWER_CHANGES = {"Not started": ("start",), "Running": ("pause",), "Paused": ("resume",)}
NO_FAILURE = Failure(200)


@dataclass(frozen=True, slots=True)
class Attempt:
    """A change that was tried and failed, with what was typed."""

    change: Change
    typed: Texts
    failure: Failure


@dataclass(frozen=True, slots=True)
class Form:
    """A change as its form shows it; `values` has a text for each `section.field`."""

    change: Change
    values: Texts
    failure: Failure = NO_FAILURE


@dataclass(frozen=True, slots=True)
class Visit:
    """Who looks, and what the page has to tell besides the machine."""

    session: OIDCSession[User]
    csrf_token: str
    attempt: Attempt | None = None
    done: str = ""
    refusal: str = ""
    status: int = field(default=200)


async def machine_page(monitor: Monitor, visit: Visit) -> HTMLResponse:
    """The whole page, also when the monitor does not answer."""
    looked = await look(monitor)
    machine = looked if isinstance(looked, Machine) else None
    state = machine.instance.state if machine else None
    configuration = machine.configuration if machine else None
    values = {
        "monitor": monitor,
        "machine": machine,
        "state": state,
        "unreachable": "" if isinstance(looked, Machine) else sentence(monitor, looked),
        "setup": _form(monitor, CHANGES["setup"], configuration, visit.attempt),
        "power": _power(monitor, state, visit.attempt),
        "done": visit.done,
        "refusal": visit.refusal,
        "csrf_token": visit.csrf_token,
        **account(visit.session),
    }
    return page("machine.html", values, status=visit.status)


def account(session: OIDCSession[User]) -> dict[str, object]:
    """What the top bar says of the person who looks."""
    return {
        "user": session.identity,
        "session_ends": datetime.fromtimestamp(session.expires_at, UTC),
    }


def _power(monitor: Monitor, state: str | None, attempt: Attempt | None) -> list[Form]:
    """The buttons that make sense now, and the one that was pressed if it has a fault to show."""
    names = list(POWER_CHANGES.get(state or "", ()))
    pressed = attempt.change.name if attempt and not attempt.change.sections else None
    if pressed and pressed not in names:
        names.append(pressed)
    return [_form(monitor, CHANGES[name], None, attempt) for name in names]


def _form(
    monitor: Monitor,
    change: Change,
    configuration: FullVmConfiguration | None,
    attempt: Attempt | None,
) -> Form:
    """What was typed and refused, or else what the monitor has."""
    values: dict[str, str] = {}
    for section in change.sections:
        values |= section.values(configuration, monitor.suggestions)
    if attempt is None or attempt.change is not change:
        return Form(change, values)
    typed = {name: attempt.typed.get(name, "") for name in values}
    return Form(change, typed, attempt.failure)
