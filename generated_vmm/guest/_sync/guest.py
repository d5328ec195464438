# Derived from `generated_vmm/guest/_async/guest.py` by `make codegen`. Do not edit.
"""The client of a guest's agent."""

from __future__ import annotations

import math
import os
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from signal import SIGKILL
from typing import Self, TypeAlias, TypedDict, Unpack

from generated_vmm.binding import as_model
from generated_vmm.concurrency._sync import Context, Stream, finished
from generated_vmm.facade.elsewhere import GUEST
from generated_vmm.guest import errors
from generated_vmm.guest._generated import models, operations
from generated_vmm.guest._sync.link import Link, Machine
from generated_vmm.guest._sync.path import AnyPath, GuestPath
from generated_vmm.guest._sync.program import LONGEST_WAIT, MAX_OUTPUT_BYTES, Program
from generated_vmm.misuse import (
    Told,
    require_arguments,
    require_bytes,
    require_kind,
    require_options,
)
from generated_vmm.transport.calls import deadline_after, require_seconds

DEFAULT_PORT = 1024
DEFAULT_TIMEOUT = 10.0
SEED_BYTES = 64
Argument: TypeAlias = str | os.PathLike[str] | GuestPath


class ProgramOptions(TypedDict, total=False):
    """How a program is started.

    `env` adds to the variables of the agent. After `timeout` seconds, the program ends with all its
    processes. `terminal` gives the program a terminal of some `rows` and `columns`, and one stream
    of output.
    """

    cwd: Argument | None
    env: Mapping[str, str] | None
    user: str | None
    limits: models.Limits | models.LimitsFields | None
    terminal: models.TerminalSize | models.TerminalSizeFields | None
    timeout: float | None


class Guest(Context, Told):
    """Runs programs and moves files in the guest of a machine, by the agent in it.

    `machine` is a monitor of `generated_vmm.process`, a client, or the path of the vsock device's
    unix socket; with `port=None` it is the path of the agent's own unix socket. `timeout` is for
    the agent's response, in seconds. Each request has a connection of its own, so nothing needs to
    be closed. Tasks may share a guest, and their requests run side by side.
    """

    _elsewhere = GUEST

    def __init__(
        self, machine: Machine, *, port: int | None = DEFAULT_PORT, timeout: float = DEFAULT_TIMEOUT
    ) -> None:
        self._link, self.timeout = Link(machine, port, timeout), timeout
        self._instance: str | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Does nothing: programs run on."""

    def wait_until_ready(self, timeout: float = 60.0) -> models.AgentInfo:
        """Waits until the agent responds; raises the last `GuestError` if it does not in time."""
        until, again = deadline_after(timeout), errors.GuestError
        return self._link.send(operations.describe_agent(), until=until, again=again)

    def info(self) -> models.AgentInfo:
        """The agent."""
        return self._link.send(operations.describe_agent())

    def run(
        self,
        args: Sequence[Argument],
        *,
        input: bytes | None = None,
        check: bool = False,
        max_output_bytes: int = MAX_OUTPUT_BYTES,
        **options: Unpack[ProgramOptions],
    ) -> errors.CompletedProgram:
        """Runs a program to its end, as `subprocess.run` does, and returns status and output.

        Raises `ProgramTimeout` if `timeout` ended it, with `check` `ProgramFailed`, and OSError if
        it cannot be started. A caller that is interrupted ends the program.
        """
        require_bytes("input", input)
        spec = _spec(args, options, input=input or None)
        timeout, name = options.get("timeout"), uuid.uuid4().hex
        deadline = deadline_after(None if timeout is None else timeout + self.timeout)
        try:
            program = self._start(name, spec, LONGEST_WAIT)
            completed = program.communicate(max_output_bytes, deadline)
        except BaseException:
            finished(self._end, name)
            raise
        if program.state.timed_out:
            raise errors.ProgramTimeout(completed, "ended by its time limit")
        if check:
            completed.check_returncode()
        return completed

    def start(
        self,
        args: Sequence[Argument],
        *,
        stdin: bool = False,
        id: str | None = None,
        **options: Unpack[ProgramOptions],
    ) -> Program:
        """Starts a program; without `stdin` its input is empty.

        It waits as soon as 1 MiB of its output is unread: read it, or send it to a file.
        A second call with the same `id` and arguments returns the same program, from any process.
        Without an `id`, a caller that is interrupted or gets no response ends the program.
        """
        require_kind("stdin", stdin, "True, and write(data) writes", bool)
        spec, name = _spec(args, options, stdin=stdin), id or uuid.uuid4().hex
        try:
            return self._start(name, spec, 0.0)
        except BaseException:
            if id is None:  # nobody else could end it
                finished(self._end, name)
            raise

    def _start(self, name: str, spec: models.ProgramSpec, wait: float) -> Program:
        self._instance = spec.agent = self._instance or (self.info()).instance
        operation = operations.start_program(name, spec, wait_ms=round(wait * 1000))
        try:
            answer = self._link.send(operation, wait, name=spec.args[0])
        except errors.ProgramLost:  # the agent was restarted: the next start asks who is there
            self._instance = None
            raise
        except FileNotFoundError as error:
            if " " in spec.args[0]:
                error.add_note(f"args is a list of words: {spec.args[0].split()}")
            raise
        return Program(self._link, name, spec.args, answer, 0)

    def _end(self, name: str) -> None:
        """Ends a program that may be there."""
        kill = models.Exchange(signal=SIGKILL)
        with suppress(errors.GuestError, OSError):
            self._link.send(operations.exchange_with_program(name, kill))

    def attach(self, id: str, *, offset: int = 0) -> Program:
        """A program that this or another process of the host has started.

        `offset` is the number of bytes of its output that are known. Raises `ProgramLost`, and
        ValueError if there are not as many.
        """
        require_kind("id", id, "the id of a program, such as program.id", str)
        told = self._link.send(operations.exchange_with_program(id, models.Exchange()))
        size = told.program.output_bytes
        if not 0 <= offset <= size:
            raise ValueError(f"offset {offset}: the output of {id} has {size} bytes")
        return Program(self._link, id, told.program.args, told, offset)

    def programs(self) -> list[models.ProgramState]:
        """The programs that the agent knows: all that run, and the last that have ended."""
        return self._link.send(operations.list_programs())

    def path(self, path: AnyPath) -> GuestPath:
        """A file or folder of the guest."""
        return GuestPath(self._link, path)

    def connect(self, port: int) -> Stream:
        """A connection to a TCP port of the guest's loopback address."""
        if not 0 < port < 65536:
            raise ValueError(f"{port} is no port: it must be a number from 1 to 65535")
        return self._link.join(operations.connect_port(str(port)), f"TCP port {port}")

    def hold(self) -> None:
        """Makes everything but the agent stand still, for a snapshot.

        The guest runs again after `release`, after `renew_identity` with `release`, or after a
        minute in which the machine is not paused. Nothing starts meanwhile.
        """
        self._link.send(operations.hold_programs())

    def release(self) -> None:
        """Lets a guest that is held run again; does nothing to another one."""
        self._link.send(operations.release_programs())

    def set_clock(self) -> None:
        """Sets the guest's clock to that of the host; a guest that was paused is late."""
        self._renew(unix_ns=time.time_ns())

    def reseed(self) -> None:
        """Gives the guest's random numbers a secret of their own.

        The clones of a snapshot may have the same random numbers until then.
        """
        self._renew(seed=os.urandom(SEED_BYTES))

    def renew_identity(self, *, hostname: str | None = None, release: bool = False) -> None:
        """Makes a clone another machine, before anything else is asked of it.

        Reseeds, then sets the clock, a new machine id, the hostname unless it is None, and makes
        new keys of the SSH server. With `release`, a guest that is held runs afterwards;
        `GuestAgentError` says that it was not held any more.
        """
        self._renew(
            seed=os.urandom(SEED_BYTES),
            unix_ns=time.time_ns(),
            machine_id=uuid.uuid4().hex,
            hostname=hostname,
            host_keys=True,
            release=release,
        )

    def _renew(self, **members: Unpack[models.IdentityFields]) -> None:
        self._link.send(operations.renew_identity(models.Identity(**members)))


def _spec(args: Sequence[Argument], options: ProgramOptions, **given: object) -> models.ProgramSpec:
    """What the agent is told of a program. Raises TypeError and ValueError for mistakes."""
    captured = ". Output is always captured, as bytes"
    require_options(options, ProgramOptions.__annotations__, captured)
    words = [_text(argument) for argument in require_arguments(args)]
    given |= {**options, "args": words, "cwd": _text(options.get("cwd"))}
    given.pop("timeout", None)
    if (timeout := options.get("timeout")) is not None:
        require_seconds(timeout)
        given["timeout_ms"] = math.ceil(timeout * 1000)
    return as_model(models.ProgramSpec, given, {})


def _text(argument: Argument | None) -> object:
    """A path as text; other values as they are, for the check of all of them."""
    return str(argument) if isinstance(argument, os.PathLike) else argument
