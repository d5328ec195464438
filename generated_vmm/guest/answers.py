"""From the agent's responses to values and errors. An agent is not trusted: it may say anything."""

from __future__ import annotations

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

REFUSALS = {404: errors.ProgramLost, 410: errors.ProgramLost, 503: errors.GuestAgentLost}


@dataclass(frozen=True, slots=True)
class Output(Told):
    """Output of one stream; `lost_bytes` before it can be read no more."""

    _elsewhere = PIECE
    stream: Literal["stdout", "stderr"]
    data: bytes
    lost_bytes: int = 0


def pieces_of(output: models.ProgramOutput) -> list[Output]:
    """The output in a response."""
    return [
        Output("stderr" if each.is_error else "stdout", Raw(each.data), max(0, each.lost_bytes))
        for each in output.frames
        if each.data
    ]


def no_connection(what: str, error: VmmError | CallFailed) -> errors.GuestError:
    """The error for a connection that was not made: of the machine, or of its agent.

    The device hangs up when no process in the guest listens on the port. The cause is then a reset,
    or an error without a number, which is not from the host's system.
    """
    cause = error.__cause__
    is_refused = isinstance(cause, ConnectionRefusedError) and cause.errno is None
    if is_refused or isinstance(cause, ConnectionResetError):
        told = f"{what}: the machine responds, but no agent listens: {error}. For one that starts, "
        return errors.GuestAgentError(f"{told}wait_until_ready() waits")
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
    status = answer.status_code
    try:
        if 200 <= status < 300:
            return operation.read(answer.content)
        fault = models.Fault.from_answer(answer.content)
    except ValueError as error:
        told = f"{what}: {operation}: not a response of an agent, with status {status}"
        raise errors.GuestAgentError(f"{told}: {shorten(str(error))}", operation) from error
    text = shorten(fault.fault_message)
    if fault.errno:
        raise OSError(fault.errno, f"{text} (in the guest)", name or None)
    raise REFUSALS.get(status, errors.GuestAgentError)(f"{what}: {operation}: refused: {text}")
