"""From the agent's responses to values and errors. An agent is not trusted: it may say anything."""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from generated_vmm.errors import VmmError, shorten
from generated_vmm.facade.elsewhere import PIECE
from generated_vmm.guest import errors
from generated_vmm.guest._generated import models
from generated_vmm.misuse import Raw, Told
from generated_vmm.operation import Answer, Operation
from generated_vmm.transport import CallFailed, HttpAnswer

VERSION, NUMBER = b"agent-version", re.compile(rb"\d{1,9}")
REFUSALS = {
    "no_such_program": errors.ProgramLost,
    "other_agent": errors.ProgramLost,
    "held": errors.GuestHeld,
}


@dataclass(frozen=True, slots=True)
class Output(Told):
    """Output of one stream; `lost_bytes` before it can be read no more."""

    _elsewhere = PIECE
    stream: Literal["stdout", "stderr"]
    data: bytes
    lost_bytes: int = 0


def no_connection(what: str, error: VmmError | CallFailed) -> errors.GuestError:
    """The error for a connection that was not made: of the machine, or of its agent.

    The device hangs up when no process in the guest listens on the port. The cause is then a reset,
    or an error without a number, which is not from the host's system.
    """
    cause = error.__cause__
    is_refused = isinstance(cause, ConnectionRefusedError) and cause.errno is None
    if is_refused or isinstance(cause, ConnectionResetError):
        return errors.GuestAgentError(
            f"{what}: the machine responds, but no agent listens: {error}. For one that starts, "
            "wait_until_ready() waits"
        )
    return errors.GuestMachineError(f"{what}: {error}")


@contextmanager
def failures(what: str, operation: Operation[object]) -> Iterator[None]:
    """Turns the failures of a connection into errors of the agent."""
    try:
        yield
    except (CallFailed, OSError) as error:
        kind, text = getattr(error, "kind", type(error)), str(error) or "no response in time"
        made = errors.GuestAgentError
        if issubclass(kind, TimeoutError):
            made = errors.GuestAgentTimeout
        elif issubclass(kind, OSError) or isinstance(error.__cause__, EOFError):
            made = errors.GuestAgentLost
        text = f"{what}: {operation}: {text}; the agent may have carried it out"
        raise made(text, operation) from error


def value_of(what: str, operation: Operation[Answer], answer: HttpAnswer, name: str) -> Answer:
    """The value in a response. Raises the error that it stands for; `name` is a path in it."""
    if not 200 <= answer.status_code < 300:
        raise _refusal(f"{what}: {operation}", answer, name)
    try:
        return operation.read(answer.content)
    except ValueError as error:
        raise broken(what, operation, shorten(str(error))) from error


def broken(what: str, operation: Operation[object], reason: str) -> errors.GuestAgentError:
    """The error for a response that the API does not allow."""
    text = f"{what}: {operation}: not a response of an agent: {reason}"
    return errors.GuestAgentError(text, operation)


def _refusal(what: str, answer: HttpAnswer, name: str) -> Exception:
    try:
        fault = models.Fault.from_answer(answer.content)
    except ValueError:
        reason = f"{what}: status {answer.status_code} without a reason"
        return errors.GuestAgentError(reason)
    text = shorten(fault.fault_message)
    if fault.errno is not None and fault.errno > 0:
        return OSError(fault.errno, f"{text} (in the guest)", name or None)
    if answer.status_code == 501:
        version = dict(answer.headers).get(VERSION, b"")
        number = int(version) if NUMBER.fullmatch(version) else 0
        return errors.GuestAgentTooOld(f"{what}: the agent is too old: {text}", number)
    return REFUSALS.get(fault.code, errors.GuestAgentError)(f"{what}: refused: {text}")


def frames_of(offset: int, output: models.ProgramOutput) -> list[Output]:
    """The output in a response to a request for the output from `offset` on.

    Raises ValueError if its numbers contradict each other.
    """
    found, lost = list[Output](), output.lost_bytes
    if offset < output.program.output_bytes and not output.frames:
        raise ValueError("there is output, and none of it came")
    for frame in output.frames:
        data = binascii.a2b_base64(frame.data, strict_mode=True)
        if frame.stream not in ("stdout", "stderr") or not data:
            raise ValueError("a frame of no stream, or without data")
        found.append(Output(frame.stream, Raw(data), lost))
        lost = 0
    end = offset + output.lost_bytes + sum(len(each.data) for each in found)
    if output.lost_bytes < 0 or not end == output.next_offset <= output.program.output_bytes:
        raise ValueError("the offsets contradict each other")
    return found
