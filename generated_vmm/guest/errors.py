"""The errors of a guest: they say whether the machine, its agent or the program failed.

GuestError (a VmmError)
  GuestMachineError     no connection to the machine (also a ConnectionError)
  GuestAgentError       the machine is there, but its agent does not respond as it should
    GuestAgentLost      it ended the connection (also a ConnectionError)
    GuestAgentTimeout   no response in time (also a TimeoutError)
    GuestAgentTooOld    the agent lacks an operation or a field
    GuestHeld           the guest stands still for a snapshot
  GuestProgramError     the agent did its part
    ProgramFailed       the exit status is not 0, with `check`
    ProgramTimeout      the time limit ended the program (also a TimeoutError)
    ProgramOutputTooLarge
                        the program wrote more than the host takes
    ProgramOutputLost   some of its output can be read no more
    ProgramLost         the agent does not know the program (any more)

What the guest's operating system refuses is the `OSError` that Python has for it, such as
`FileNotFoundError`, with the guest's path as `filename`.
"""

from __future__ import annotations

from dataclasses import dataclass
from signal import Signals
from typing import NoReturn

from generated_vmm.errors import VmmError
from generated_vmm.facade.elsewhere import COMPLETED
from generated_vmm.misuse import Told


class GuestError(VmmError):
    """Base of the errors of a guest."""


class GuestMachineError(GuestError, ConnectionError):
    """There is no connection to the machine: its monitor has ended, or it does not respond."""


class GuestAgentError(GuestError):
    """The machine is there, but its agent is not, has ended the connection, or broke the API."""


class GuestAgentLost(GuestAgentError, ConnectionError):
    """The connection to the agent ended before the response."""


class GuestAgentTimeout(GuestAgentError, TimeoutError):
    """The agent did not respond in time; it may still carry out the request."""


class GuestHeld(GuestAgentError):
    """The guest stands still for a snapshot: nothing starts before it is released."""


class GuestAgentTooOld(GuestAgentError):
    """The agent has the version `version` and lacks what the message names."""

    def __init__(self, message: str, version: int) -> None:
        super().__init__(message)
        self.version = version


class GuestProgramError(GuestError):
    """A program failed, not the agent."""


class ProgramLost(GuestProgramError):
    """The agent knows no such program: it has forgotten it, or was restarted."""


class ProgramOutputTooLarge(GuestProgramError):
    """The program wrote more than `max_output_bytes`, and was ended."""


class ProgramOutputLost(GuestProgramError):
    """Some of the output can be read no more: another host has read it."""


@dataclass(frozen=True, slots=True)
class CompletedProgram(Told):
    """A program that has ended; `returncode` is its exit status, or -N for signal N.

    It is neither true nor false: `if completed` raises TypeError.
    """

    _elsewhere = COMPLETED
    args: list[str]
    returncode: int
    stdout: bytes
    stderr: bytes

    def __bool__(self) -> NoReturn:
        """Raises TypeError: what fails would be as true as what does not."""
        raise TypeError(f"{self.args[0]} has ended: compare its returncode, or pass check=True")

    @property
    def signal(self) -> int | None:
        """The signal that ended the program: `signal.Signals`, or a number without a name."""
        number = -self.returncode
        if number <= 0:
            return None
        return Signals(number) if number in set(Signals) else number

    @property
    def text(self) -> str:
        """`stdout` as text; bytes that are not UTF-8 are replaced."""
        return self.stdout.decode(errors="replace")

    def check_returncode(self) -> None:
        """Raises `ProgramFailed` unless the exit status is 0."""
        if self.returncode:
            raise ProgramFailed(self)


class ProgramFailed(GuestProgramError):
    """The program ended with an exit status other than 0, or by a signal; see `completed`."""

    def __init__(self, completed: CompletedProgram) -> None:
        by = completed.signal
        name = by.name if isinstance(by, Signals) else f"signal {by}"
        how = f"ended by {name}" if by else f"exit status {completed.returncode}"
        super().__init__(f"{completed.args[0]}: {how}: {_end_of(completed.stderr)}".rstrip(": "))
        self.completed = completed


class ProgramTimeout(GuestProgramError, TimeoutError):
    """The time limit ended the program and all its processes; see `completed`."""

    def __init__(self, completed: CompletedProgram) -> None:
        super().__init__(f"{completed.args[0]}: ended by its time limit")
        self.completed = completed


def _end_of(stderr: bytes) -> str:
    return " ".join(stderr[-500:].decode(errors="replace").split())
