"""The errors of a guest: they say whether the machine, its agent or the program failed.

GuestError (a VmmError)
  GuestMachineError     no connection to the machine (also a ConnectionError)
  GuestAgentError       the machine is there, but its agent does not respond as it should
    GuestAgentLost      it ended the connection, or stands still (also a ConnectionError)
    GuestAgentTimeout   no response in time (also a TimeoutError)
  GuestProgramError     the agent did its part, and what the program did is no result
    ProgramFailed       the exit status is not 0, with `check`
    ProgramTimeout      the time limit ended the program (also a TimeoutError)
    ProgramLost         the agent does not know the program (any more)

What the guest's operating system refuses is the `OSError` that Python has for it, such as
`FileNotFoundError`, with the guest's path as `filename`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from generated_vmm.errors import VmmError
from generated_vmm.facade.elsewhere import COMPLETED
from generated_vmm.misuse import Told


class GuestError(VmmError):
    """Base of the errors of a guest."""


class GuestMachineError(GuestError, ConnectionError):
    """There is no connection to the machine: its monitor has ended, or it does not respond."""


class GuestAgentError(GuestError):
    """The machine is there, but its agent is not, refuses the request, or broke the API."""


class GuestAgentLost(GuestAgentError, ConnectionError):
    """The connection ended before the response, or the guest is held for a snapshot."""


class GuestAgentTimeout(GuestAgentError, TimeoutError):
    """The agent did not respond in time; it may still carry out the request."""


class GuestProgramError(GuestError):
    """A program failed, not the agent."""


class ProgramLost(GuestProgramError):
    """The agent knows no such program: it has forgotten it, or was restarted."""


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
    def text(self) -> str:
        """`stdout` as text; bytes that are not UTF-8 are replaced."""
        return self.stdout.decode(errors="replace")

    def check_returncode(self) -> None:
        """Raises `ProgramFailed` unless the exit status is 0."""
        if status := self.returncode:
            how = f"exit status {status}" if status > 0 else f"ended by signal {-status}"
            said = " ".join(self.stderr[-500:].decode(errors="replace").split())
            raise ProgramFailed(self, f"{how}: {said}".rstrip(": "))


class ProgramFailed(GuestProgramError):
    """The program ended with an exit status other than 0, or by a signal; see `completed`."""

    def __init__(self, completed: CompletedProgram, how: str) -> None:
        super().__init__(f"{completed.args[0]}: {how}")
        self.completed = completed


class ProgramTimeout(ProgramFailed, TimeoutError):
    """The time limit ended the program and all its processes; see `completed`."""
