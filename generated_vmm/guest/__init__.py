"""Programs, files and ports of a guest, by the agent in it: `python -m generated_vmm.guest`.

    with Guest(monitor) as guest:
        guest.wait_until_ready()
        print(guest.run(["uname", "-a"], check=True).text)

`AsyncGuest` has the same members, awaited.
"""

from generated_vmm.guest._async.guest import AsyncGuest
from generated_vmm.guest._async.path import AsyncGuestPath
from generated_vmm.guest._async.program import AsyncProgram
from generated_vmm.guest._generated.models import AgentInfo, FileStat, ProgramState, TerminalSize
from generated_vmm.guest._sync.guest import Guest, ProgramOptions
from generated_vmm.guest._sync.path import GuestPath
from generated_vmm.guest._sync.program import Program
from generated_vmm.guest.answers import Output
from generated_vmm.guest.errors import (
    CompletedProgram,
    GuestAgentError,
    GuestAgentLost,
    GuestAgentTimeout,
    GuestError,
    GuestMachineError,
    GuestProgramError,
    ProgramFailed,
    ProgramLost,
    ProgramTimeout,
)

__all__ = [
    "AgentInfo",
    "AsyncGuest",
    "AsyncGuestPath",
    "AsyncProgram",
    "CompletedProgram",
    "FileStat",
    "Guest",
    "GuestAgentError",
    "GuestAgentLost",
    "GuestAgentTimeout",
    "GuestError",
    "GuestMachineError",
    "GuestPath",
    "GuestProgramError",
    "Output",
    "Program",
    "ProgramFailed",
    "ProgramLost",
    "ProgramOptions",
    "ProgramState",
    "ProgramTimeout",
    "TerminalSize",
]
