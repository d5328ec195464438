"""Carrying out a change: all input is checked before anything is sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Protocol

from examples.console.changes import Change
from examples.console.events import NOT_RECORDED
from examples.console.fields import Fields, Texts, member_of
from examples.console.forms import Invalid, Section
from examples.console.hosted import HostedMonitor
from examples.console.library import Place
from examples.console.machine import NO_ANSWER, Machine
from examples.console.meanwhile import PageState, changed_meanwhile
from examples.console.monitors import Monitor
from examples.console.plain_words import Told, as_sentence, in_plain_words
from examples.console.records import RecordsError
from generated_vmm import VmmApiError, VmmConnectionError, VmmError, VmmTimeoutError
from generated_vmm.machines import MachineBusy, MachineError


class Admit(Protocol):
    """Gives a machine access to a file; raises ValueError for a forbidden one."""

    async def __call__(self, path: str, places: Sequence[Place], *, writes: bool) -> None:
        """Admits the file, to be written to or only read."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a change was not carried out: beside its fields (`section.field`), or its button.

    `status` is that of the response to the browser.
    """

    status: int
    at_fields: Mapping[str, Told] = field(default_factory=dict)
    at_button: Told | None = None


NO_FAILURE = Failure(200)
BAD_GATEWAY: Final = 502
CONFLICT: Final = 409
UNRECORDED: Final = Failure(503, at_button=Told(NOT_RECORDED))
NOTHING_SENT: Final = Told("Nothing was sent: see the marked fields.")
RESUMING: Final = ("resume", "named_snapshot", "clone")
"""Changes after which the guest's agent sets the clock."""
ENDED_MEANWHILE: Final = Told("The monitor ended during the request. Start the machine again.")


async def carry_out(
    monitor: Monitor, change: Change, form: Texts, page: PageState | None = None
) -> Failure | None:
    """Send the input of the form and record it; None if the monitor did all of it.

    Nothing is done if the machine is no longer as `page` showed it, cannot be changed so, is busy,
    or if what is wanted cannot be recorded.
    """
    if (operation := monitor.operation) is not None:
        return Failure(CONFLICT, at_button=Told(f"{monitor.name} is busy: {operation.in_words}."))
    try:
        event = await monitor.events.begin(change.verb)
    except RecordsError:
        return UNRECORDED
    turn = nullcontext() if change.at_once else monitor.turn
    hosted = monitor if isinstance(monitor, HostedMonitor) and change.names_disks else None
    # A disk that a machine takes at this moment is recorded as its own only afterwards.
    async with turn, hosted.house.taking_disks if hosted else nullcontext():
        machine, fault = await _looked(monitor)
        failure = await _obstacle(monitor, change, form, page, machine, fault)
        failure = failure or await _carried_out(monitor, change, form)
    silent = failure is not None and failure.status == BAD_GATEWAY and not change.hosted
    if silent and await monitor.has_ended():
        failure = Failure(BAD_GATEWAY, at_button=ENDED_MEANWHILE)
    item = change.item_of(form)
    if failure is None:
        done = f"{change.done.removesuffix('.')}: {item}." if item else change.done
        detail = differences(change, machine, form)
        if change.name in RESUMING and isinstance(monitor, HostedMonitor):
            detail = monitor.agent_error or detail
        await monitor.events.finish(event, done, detail=detail)
    else:
        why = [*failure.at_fields.values(), *([failure.at_button] if failure.at_button else [])]
        await monitor.events.finish(event, f"Tried to {change.verb}.", why[0].sentence)
    return failure


async def _obstacle(
    monitor: Monitor,
    change: Change,
    form: Texts,
    page: PageState | None,
    machine: Machine | None,
    fault: VmmError | None,
) -> Failure | None:
    """Why the change is not tried: another user was faster, or the machine does not support it."""
    if change.hosted and not monitor.is_hosted:
        return Failure(CONFLICT, at_button=Told("This console did not start this monitor."))
    if change.foreign and monitor.is_hosted:
        return Failure(CONFLICT, at_button=Told("This is only for other programs' monitors."))
    if fault and monitor.stage is None and change.not_now(NO_ANSWER):
        return _at_button(monitor, fault)
    if page is not None:
        item = change.item_of(form)
        if why := await changed_meanwhile(monitor, change, item, machine, page):
            return Failure(CONFLICT, at_button=Told(why))
    why = change.why_not(machine) if machine else change.not_now(monitor.stage or NO_ANSWER)
    return Failure(CONFLICT, at_button=Told(why)) if why else None


def differences(change: Change, machine: Machine | None, form: Texts) -> str:
    """The old and new values of a form, a line each, without documents, which may have secrets."""
    lines = []
    for section in change.sections:
        before = section.values(machine, {}, change.item_of(form))
        for one in section.fields:
            old, new = (
                before[f"{section.key}.{one.name}"],
                form.get(f"{section.key}.{one.name}", ""),
            )
            if one.kind not in ("document", "item") and old != new.strip():
                lines.append(f"{one.full_label}: {old or 'nothing'} → {new.strip() or 'nothing'}")
    return "\n".join(lines)


async def _looked(monitor: Monitor) -> tuple[Machine | None, VmmError | None]:
    """The machine as it is now, or why its state is unknown."""
    try:
        return await monitor.look(), None
    except VmmError as error:
        return None, error


async def _carried_out(monitor: Monitor, change: Change, form: Texts) -> Failure | None:
    parsed = parse(change, form)
    if isinstance(parsed, Failure):
        return parsed
    has_calls = any(section.send for section in change.sections)
    try:
        async with monitor.changing() if has_calls else nullcontext():
            if failure := await _called(monitor, change, parsed):
                return failure
        if change.act is not None:
            await change.act(monitor, parsed)
    except MachineBusy as error:
        return Failure(CONFLICT, at_button=Told(f"{error}."))
    except OSError as error:
        if isinstance(error, VmmError):
            return _in_vain(monitor, change, error)
        return Failure(507, at_button=Told(f"Nothing was done: {error.strerror}."))
    except (VmmError, ValueError) as error:
        return _in_vain(monitor, change, error)
    return None


async def _called(monitor: Monitor, change: Change, parsed: Mapping[str, Fields]) -> Failure | None:
    """Sends each section, after a check of all files."""
    if errors := await wrong_files(monitor.admit, change, parsed):
        return Failure(422, errors, NOTHING_SENT)
    for section in change.sections:
        failure = await _sent(monitor, section, parsed.get(section.key))
        if failure is not None:
            return failure
    return None


async def _sent(monitor: Monitor, section: Section, fields: Fields | None) -> Failure | None:
    """Send the input of one section, if there is any."""
    if section.send is None or fields is None:
        return None
    try:
        await section.send(monitor.control, fields)
    except (VmmError, ValueError) as error:
        monitor.note_refusal(section.key, fields)
        return refused(monitor, section, error) or _at_button(monitor, error)
    monitor.note_acceptance(section.key, fields)
    return None


def _in_vain(monitor: Monitor, change: Change, error: Exception) -> Failure:
    refusals = (refused(monitor, section, error) for section in change.sections)
    return next((refusal for refusal in refusals if refusal), _at_button(monitor, error))


def _at_button(monitor: Monitor, error: Exception) -> Failure:
    return Failure(_status(error), at_button=told(monitor, error))


def sentence(monitor: Monitor, error: Exception) -> str:
    """The error for users, in one sentence."""
    return told(monitor, error).sentence


def told(monitor: Monitor, error: Exception) -> Told:
    """The error for users, with the monitor's own text if there is one."""
    if isinstance(error, VmmApiError) and error.fault_message:
        return in_plain_words(error.fault_message)
    return Told(_without_words(monitor, error))


def _without_words(monitor: Monitor, error: Exception) -> str:
    match error:
        case VmmApiError():
            return f"The monitor returned status {error.status_code}."
        case VmmTimeoutError():
            return "The monitor took too long to respond."
        case VmmConnectionError():
            return f"No monitor responds at {monitor.socket_path}. Is it running?"
    return as_sentence(error)


def parse(change: Change, form: Texts) -> Mapping[str, Fields] | Failure:
    """The input by section, without empty ones; or its faults."""
    parsed: dict[str, Fields] = {}
    errors: dict[str, Told] = {}
    for section in change.sections:
        try:
            fields = section.parse(form)
            parsed |= {} if fields is None else {section.key: fields}
        except Invalid as invalid:
            errors |= {f"{section.key}.{at}": Told(why) for at, why in invalid.errors.items()}
    return Failure(422, errors, NOTHING_SENT) if errors else parsed


async def wrong_files(
    admit: Admit, change: Change, parsed: Mapping[str, Fields]
) -> Mapping[str, Told]:
    """The fields that name a file that the machine may not use, with the reasons."""
    wrong: dict[str, Told] = {}
    for section in change.sections:
        fields = parsed.get(section.key, {})
        for one in section.fields:
            path = member_of(fields, one.name)
            if one.places and isinstance(path, str | Path) and str(path):
                writes = one.places == ("disks",) and not fields.get(one.reads_if)
                try:
                    await admit(str(path), one.places, writes=writes)
                except ValueError as error:
                    wrong[f"{section.key}.{one.name}"] = Told(as_sentence(error))
    return wrong


def refused(monitor: Monitor, section: Section, error: Exception) -> Failure | None:
    """The fault at its field; None if the field is not known."""
    why = told(monitor, error)
    # Without a response there is no text about a field.
    name = section.field_of(why.words or why.sentence) if _status(error) == 422 else None
    if name is None:
        return None
    # The client names the members of the model; users see the labels of the form.
    at_fields = {f"{section.key}.{name}": replace(why, sentence=section.with_labels(why.sentence))}
    told_by = "The monitor refused it" if isinstance(error, VmmError) else "It was not done"
    return Failure(_status(error), at_fields, Told(f"{told_by}: see the marked field."))


def _status(error: Exception) -> int:
    """The status of a refused request (409, 422), or of a monitor without a response (502)."""
    return 422 if isinstance(error, VmmApiError | MachineError | ValueError) else 502
