"""Carrying out a change: all input is checked before anything is done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Final

from examples.console.changes import Change
from examples.console.changes.change import Parsed
from examples.console.events import NOT_RECORDED, Outcome
from examples.console.fields import Fields, Texts
from examples.console.forms import Invalid
from examples.console.hosted import HostedMonitor
from examples.console.machine import NO_ANSWER, Machine
from examples.console.meanwhile import PageState, changed_meanwhile
from examples.console.monitors import Monitor
from examples.console.plain_words import Told, as_sentence, in_plain_words
from examples.console.records import RecordsError
from generated_vmm import VmmApiError, VmmConnectionError, VmmError, VmmTimeoutError
from generated_vmm.machines import MachineBusy, MachineError


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a change was not carried out: at its button, and beside its fields (`section.field`).

    `status` is that of the response to the browser.
    """

    status: int
    at_button: Told
    at_fields: Mapping[str, str] = field(default_factory=dict)

    @property
    def why(self) -> str:
        """The reason in one sentence."""
        return next(iter(self.at_fields.values()), self.at_button.sentence)


NO_FAILURE = Failure(200, Told(""))
BAD_GATEWAY: Final = 502
CONFLICT: Final = 409
UNRECORDED: Final = Failure(503, Told(NOT_RECORDED))
NOTHING_SENT: Final = Told("Nothing was done: see the marked fields.")
NOT_OURS: Final = Failure(CONFLICT, Told("This console did not start this monitor."))
RESUMING: Final = ("resume", "named_snapshot", "clone")
"""Changes after which the guest's agent sets the clock."""
ENDED_MEANWHILE: Final = Told("The monitor ended during the request. Start the machine again.")


async def carry_out(
    monitor: Monitor, change: Change, form: Texts, page: PageState | None = None
) -> Failure | None:
    """Do what the form says and record it; None if all of it was done.

    Nothing is done if the machine is no longer as `page` showed it, cannot be changed so, is busy,
    or if what is wanted cannot be recorded.
    """
    if (operation := monitor.operation) is not None:
        return Failure(CONFLICT, Told(f"{monitor.name} is busy: {operation.in_words}."))
    try:
        async with monitor.events.acting(change.verb) as outcome:
            return await _recorded(monitor, change, form, page, outcome)
    except RecordsError:
        return UNRECORDED


async def _recorded(
    monitor: Monitor, change: Change, form: Texts, page: PageState | None, outcome: Outcome
) -> Failure | None:
    async with nullcontext() if change.at_once else monitor.turn:
        machine = await monitor.look()
        failure = await _tried(monitor, change, form, page, machine)
    if failure is not None and failure.status == BAD_GATEWAY and await monitor.has_ended():
        failure = Failure(BAD_GATEWAY, ENDED_MEANWHILE)
    if failure is not None:
        outcome.refused = failure.why
        return failure
    item = change.item_of(form)
    done = f"{change.done.removesuffix('.')}: {item}." if item else change.done
    detail = differences(change, machine, form)
    if change.name in RESUMING and isinstance(monitor, HostedMonitor):
        detail = monitor.agent_error or detail
    outcome.done(done, detail)
    return None


async def _tried(
    monitor: Monitor, change: Change, form: Texts, page: PageState | None, machine: Machine
) -> Failure | None:
    """Does it, unless another user was faster, or the machine does not support it."""
    act = change.act_of(monitor)
    if act is None:
        return NOT_OURS
    if machine.fault is not None and change.not_now(NO_ANSWER):
        return failed(monitor, machine.fault)
    item = change.item_of(form)
    if page and (why := changed_meanwhile(monitor, change, item, machine, page)):
        return Failure(CONFLICT, Told(why))
    if why := change.why_not(machine):
        return Failure(CONFLICT, Told(why))
    if change.items is not None and item not in change.items(machine):
        return Failure(CONFLICT, Told("There is no such device."))
    return await attempt(monitor, change, form, act)


async def attempt(
    monitor: Monitor | None,
    change: Change,
    form: Texts,
    act: Callable[[Parsed], Awaitable[object]],
) -> Failure | None:
    """Reads the form and acts; why it was not done, if it was not."""
    parsed = parse(change, form)
    if isinstance(parsed, Failure):
        return parsed
    try:
        await act(parsed)
    except Invalid as invalid:
        return Failure(422, NOTHING_SENT, invalid.errors)
    except (VmmError, OSError, ValueError) as error:
        return failed(monitor, error)
    return None


def failed(monitor: Monitor | None, error: Exception) -> Failure:
    """What an error means for the user."""
    told = explained(monitor, error)
    match error:
        case MachineBusy():
            return Failure(CONFLICT, told)
        case VmmApiError() | MachineError() | ValueError():
            return Failure(422, told)
        case VmmError():
            return Failure(BAD_GATEWAY, told)
    return Failure(507, told)


def explained(monitor: Monitor | None, error: Exception) -> Told:
    """The error for users, with the monitor's own text if there is one."""
    match error:
        case VmmApiError(fault_message=words) if words:
            return in_plain_words(words)
        case VmmApiError():
            return Told(f"The monitor returned status {error.status_code}.")
        case VmmTimeoutError():
            return Told("The monitor took too long to respond.")
        case VmmConnectionError() if monitor is not None:
            return Told(f"No monitor responds at {monitor.socket_path}. Is it running?")
    return Told(as_sentence(error))


def differences(change: Change, machine: Machine, form: Texts) -> str:
    """The old and new values of a form, a line each, without documents, which may have secrets."""
    lines = []
    for section in change.sections:
        item = change.item_of(form)
        is_new = section.found(machine.definition, item) is None
        before = {} if is_new else section.values(machine.definition, {}, item)
        for one in section.fields:
            name = f"{section.key}.{one.name}"
            old, new = before.get(name, ""), form.get(name, "").strip()
            if one.kind not in ("document", "item") and old != new:
                lines.append(f"{one.label}: {old or 'nothing'} → {new or 'nothing'}")
    return "\n".join(lines)


def parse(change: Change, form: Texts) -> Parsed | Failure:
    """The input by section, without empty ones; or its faults."""
    parsed: dict[str, Fields] = {}
    errors: dict[str, str] = {}
    for section in change.sections:
        try:
            fields = section.parse(form)
            parsed |= {} if fields is None else {section.key: fields}
        except Invalid as invalid:
            errors |= invalid.errors
    return Failure(422, NOTHING_SENT, errors) if errors else parsed
