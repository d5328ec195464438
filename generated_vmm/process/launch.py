"""Beginning a monitor's process, in a way that nobody can lose it."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from generated_vmm.process.child import Child
from generated_vmm.process.errors import MonitorStartError
from generated_vmm.process.spawn import spawn

SHELL = "/bin/sh"
# The process waits until somebody knows of it: a line on its input lets it become the monitor, an
# end of its input, because the caller died, ends it. Then the console is its input.
GATE = 'read -r _ && cd -- "$1" && shift && exec "$@" 0<>"$0"'
ELF_HEADER = 20  # bytes up to the machine's number
ELF_MACHINE = slice(18, 20)
SCRIPT = b"#!"


@dataclass(frozen=True)
class Command:
    """What is to be started: where, with which environment, on which console."""

    words: Sequence[str]
    env: Mapping[str, str]
    cwd: str
    console_input: str


class Gate:
    """A process that has begun but does nothing before it is let through."""

    def __init__(self, command: Command, output: int, errors: int) -> None:
        """Begins the process with these descriptors for what it prints.

        Raises `MonitorStartError` when the system starts no process.
        """
        closed, self._gate = os.pipe()
        try:
            words = [SHELL, "-c", GATE, command.console_input, command.cwd, *command.words]
            self.child = Child(spawn(words, command.env, (closed, output, errors)))
        except OSError as error:
            os.close(self._gate)
            raise MonitorStartError(f"{SHELL} cannot be started: {error}") from error
        finally:
            os.close(closed)

    def open(self) -> None:
        """Lets the process become the program."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self._gate, b"\n")
        self.close()

    def close(self) -> None:
        """Ends the process unless it was let through; safe to call twice."""
        if self._gate >= 0:
            os.close(self._gate)
            self._gate = -1


def find_program(name: str | os.PathLike[str], env: Mapping[str, str] | None) -> str:
    """The absolute path of a program. `MonitorStartError` when there is none to be run."""
    wanted = os.fspath(name)
    found = shutil.which(wanted, path=None if env is None else env.get("PATH"))
    if found is None:
        reason = "may not be executed" if Path(wanted).is_file() else "is not there"
        raise MonitorStartError(f"{wanted!r} {reason}")
    _require_program(found)
    return os.path.abspath(found)


def _require_program(path: str) -> None:
    """Refuses what the shell would read as a script although it is none."""
    with contextlib.suppress(PermissionError):  # the system may run what we may not read
        beginning, ours = _beginning_of(path), _beginning_of("/proc/self/exe")
        is_ours = beginning[:6] == ours[:6] and beginning[ELF_MACHINE] == ours[ELF_MACHINE]
        if not (is_ours or beginning.startswith(SCRIPT)):
            raise MonitorStartError(f"{path!r} is no program for this machine")


def _beginning_of(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read(ELF_HEADER)
