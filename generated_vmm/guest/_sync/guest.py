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
from generated_vmm.guest._sync.program import (
    DEFAULT_MAX_OUTPUT_BYTES,
    LONGEST_WAIT,
    Program,
    tell_unread,
)
from generated_vmm.guest.answers import Output, pieces_of
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
API_VERSION = 1
SEED_BYTES = 64
PORTS = range(1, 65536)
NO_RESPONSE = errors.GuestAgentLost, errors.GuestAgentTimeout
Argument: TypeAlias = str | os.PathLike[str] | GuestPath


class ProgramOptions(TypedDict, total=False):
    """How a program is started.

    `env` adds to the variables of the agent. After `timeout` seconds, the program ends with all its
    processes. `terminal` gives the program a terminal of some `rows` and `columns`, and one stream
    of output. `id` is random by default.
    """

    cwd: Argument | None
    env: Mapping[str, str] | None
    user: str | None
    limits: models.Limits | models.LimitsFields | None
    terminal: models.TerminalSize | models.TerminalSizeFields | None
    timeout: float | None
    id: str | None


class Guest(Context, Told):
    """Runs programs and moves files in the guest of a machine, by the agent in it.

    `machine` is a monitor of `generated_vmm.process`, a client, or the path of the vsock device's
    unix socket; with `port=None` it is the path of the agent's own unix socket. `timeout` is for
    the agent's response, in seconds. Tasks may share a guest, and their requests run side by side.
    """

    _elsewhere = GUEST

    def __init__(
        self, machine: Machine, *, port: int | None = DEFAULT_PORT, timeout: float = DEFAULT_TIMEOUT
    ) -> None:
        self._link = Link(machine, port, timeout)
        self._instance: str | None = None

    @property
    def timeout(self) -> float:
        """Seconds for the agent's response."""
        return self._link.timeout

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._link.what}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Does nothing: each request has a connection of its own, and programs run on."""

    def info(self) -> models.AgentInfo:
        """The agent; raises `GuestAgentTooOld` for a version before this client's."""
        return self._known(self._link.send(operations.describe_agent()))

    def _known(self, info: models.AgentInfo) -> models.AgentInfo:
        if info.version < API_VERSION:
            lacks = f"it has version {info.version}, and this client needs {API_VERSION}"
            said = f"{self._link.what}: the agent is too old: {lacks}"
            raise errors.GuestAgentTooOld(said, info.version)
        self._instance = info.instance
        return info

    def wait_until_ready(self, timeout: float = 60.0) -> models.AgentInfo:
        """Waits until the agent responds; raises the last `GuestError` if it does not in time.

        One that stays is raised immediately: the machine was started without a vsock device.
        """
        until, again = deadline_after(timeout), errors.GuestError
        ask = operations.describe_agent()
        return self._known(self._link.send(ask, until=until, again=again))

    def run(
        self,
        args: Sequence[Argument],
        *,
        input: bytes | None = None,
        check: bool = False,
        max_output_bytes: int = DEFAULT_MAX_OUTPUT_BYTES,
        **options: Unpack[ProgramOptions],
    ) -> errors.CompletedProgram:
        """Runs a program to its end, as `subprocess.run` does, and returns status and output.

        Raises `ProgramTimeout` if `timeout` ended it, with `check` `ProgramFailed`, and OSError if
        it cannot be started. A caller that is interrupted ends the program.
        """
        require_bytes("input", input)
        timeout, wait = options.get("timeout"), LONGEST_WAIT if input is None else 0.0
        program, known = self._start(args, input is not None, wait, options, ends=True)
        try:
            deadline = deadline_after(None if timeout is None else timeout + self.timeout)
            completed = program.complete(known, input, max_output_bytes, deadline)
        except BaseException:
            finished(self._end, program.id)
            raise
        if program.timed_out:
            raise errors.ProgramTimeout(completed)
        if check:
            completed.check_returncode()
        return completed

    def _end(self, name: str) -> None:
        """Ends a program that may be there."""
        kill = models.Exchange(signal=SIGKILL)
        with suppress(errors.GuestError, OSError):
            self._link.send(operations.exchange_with_program(name, kill))

    def start(
        self, args: Sequence[Argument], *, stdin: bool = False, **options: Unpack[ProgramOptions]
    ) -> Program:
        """Starts a program; without `stdin` its input is empty.

        It waits as soon as 1 MiB of its output is unread: read it, or send it to a file.
        A second call with the same `id` and arguments returns the same program, from any process.
        Without an `id`, a caller that is interrupted or gets no response ends the program.
        """
        ends = options.get("id") is None  # nobody else could
        program, _ = self._start(args, stdin, 0.0, options, ends=ends)
        return program

    def _start(
        self,
        args: Sequence[Argument],
        stdin: bool,
        wait: float,
        options: ProgramOptions,
        *,
        ends: bool,
    ) -> tuple[Program, list[Output]]:
        """The program, and the output that comes in time.

        After an interruption and without a response, `ends` a program that may be there.
        """
        args = require_arguments(args)
        require_kind("stdin", stdin, "True, and write(data) or communicate(data) writes", bool)
        captured = ". Output is always captured, as bytes"
        require_options(options, ProgramOptions.__annotations__, captured)
        own, timeout = options.pop("id", None), options.pop("timeout", None)
        if timeout is not None:
            require_seconds(timeout)
        given: dict[str, object] = {
            **options,
            "args": [_text(argument) for argument in args],
            "cwd": _text(options.get("cwd")),
            "stdin": stdin,
            "timeout_ms": None if timeout is None else math.ceil(timeout * 1000),
        }
        spec = as_model(models.ProgramSpec, given, {})  # before anything is sent
        spec.agent, name = self._instance or (self.info()).instance, own or uuid.uuid4().hex
        operation = operations.start_program(name, spec, wait_ms=round(wait * 1000))
        try:
            answer = self._link.send(operation, wait, name=spec.args[0])
            return Program(self._link, name, spec.args, answer.program, 0), pieces_of(answer)
        except BaseException as error:
            if isinstance(error, FileNotFoundError) and " " in spec.args[0]:
                error.add_note(f"args is a list of words: {spec.args[0].split()}")
            if own is None and isinstance(error, errors.ProgramLost):
                self._instance = None  # nobody repeats this start: the next one asks who is there
            is_refused = isinstance(error, errors.GuestError | OSError)
            if ends and (not is_refused or isinstance(error, NO_RESPONSE)):
                finished(self._end, name)
            raise

    def attach(self, id: str, *, offset: int = 0) -> Program:
        """A program that this or another process of the host has started.

        `offset` is the number of bytes of its output that are known. Raises `ProgramLost`, and
        ValueError if there are not as many.
        """
        require_kind("id", id, "the id of a program, such as program.id", str)
        operation = operations.exchange_with_program(id, models.Exchange())
        state = (self._link.send(operation)).program
        if not 0 <= offset <= state.output_bytes:
            raise ValueError(f"offset {offset}: the output of {id} has {state.output_bytes} bytes")
        return Program(self._link, id, state.args, state, offset)

    def programs(self) -> list[models.ProgramState]:
        """The programs that the agent knows: all that run, and the last that have ended.

        Emits a RuntimeWarning for one that stands still because nobody has read its output.
        """
        found = self._link.send(operations.list_programs())
        for state in found:
            tell_unread(state)
        return found

    def path(self, path: AnyPath) -> GuestPath:
        """A file or folder of the guest."""
        return GuestPath(self._link, path)

    def connect(self, port: int) -> Stream:
        """A connection to a TCP port of the guest's loopback address."""
        if port not in PORTS:
            raise ValueError(f"{port!r} is no port: it must be a number from 1 to 65535")
        return self._link.join(operations.connect_port(str(port)), f"port {port}")

    def hold(self) -> None:
        """Makes everything but the agent stand still, for a snapshot.

        The guest runs again after `release`, after `set_clock` or `renew_identity` with `release`,
        or after a minute in which the machine is not paused. Nothing starts meanwhile.
        """
        self._link.send(operations.hold_programs())

    def release(self) -> None:
        """Lets a guest that is held run again; does nothing to another one."""
        self._link.send(operations.release_programs())

    def set_clock(self, *, release: bool = False) -> None:
        """Sets the guest's clock to that of the host; a guest that was paused is late.

        With `release`, a guest that is held runs afterwards.
        """
        self._renew(unix_ns=time.time_ns(), release=release)

    def reseed(self) -> None:
        """Gives the guest's random numbers a secret of their own.

        The clones of a snapshot may have the same random numbers until then.
        """
        self._renew(seed=os.urandom(SEED_BYTES))

    def renew_identity(
        self,
        *,
        hostname: str | None = None,
        machine_id: str | None = None,
        host_keys: bool = True,
        release: bool = False,
    ) -> None:
        """Makes a clone another machine, before anything else is asked of it.

        Reseeds, then sets the clock, the machine id (random by default), the hostname unless it is
        None, and makes new keys of the SSH server. With `release`, a guest that is held runs
        afterwards; `GuestAgentError` says that it was not held any more.
        """
        self._renew(
            seed=os.urandom(SEED_BYTES),
            unix_ns=time.time_ns(),
            machine_id=machine_id or uuid.uuid4().hex,
            hostname=hostname,
            host_keys=host_keys,
            release=release,
        )

    def _renew(self, **members: Unpack[models.IdentityFields]) -> None:
        self._link.send(operations.renew_identity(models.Identity(**members)))


def _text(argument: Argument | None) -> object:
    """A path as text; other values as they are, for the check of all of them."""
    return str(argument) if isinstance(argument, os.PathLike) else argument
