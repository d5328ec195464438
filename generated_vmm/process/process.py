"""One run of a monitor without the waiting: what the sync and the async monitor have in common."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator

from generated_vmm._generated.models import FullVmConfiguration
from generated_vmm.errors import VmmError
from generated_vmm.process.child import Child
from generated_vmm.process.errors import (
    MonitorError,
    MonitorExited,
    MonitorStartError,
    exit_in_words,
)
from generated_vmm.process.guard import GUARD
from generated_vmm.process.launch import Command, Gate
from generated_vmm.process.outlets import Outlets
from generated_vmm.process.place import CONSOLE_OUTPUT, LOG, Place
from generated_vmm.process.pump import Feed, Pump
from generated_vmm.process.state import State, write_state

# a fifo that always has a reader, and whose writer never waits
OUTPUT = os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW
LET_GO: list[Child] = []


class Process:
    """A monitor's process, its outlets and its files."""

    def __init__(self, place: Place, outlets: Outlets) -> None:
        self.place = place
        self.outlets = outlets
        self._owner = os.getpid()
        self._child: Child | None = None
        self._key: str | None = None
        self._feeds: dict[int, Feed] = {}
        self._pump: Pump | None = None
        self._is_finished = False

    @property
    def child(self) -> Child:
        """The process. `MonitorError` before its start."""
        if self._child is None:
            raise MonitorError("the monitor has not been started")
        return self._child

    @property
    def returncode(self) -> int | None:
        """The exit status, negative for a signal; None while it runs or when nobody was told."""
        return None if self._child is None or self._child.running else self._child.returncode

    @property
    def is_running(self) -> bool:
        """Whether the process has been started and has not ended."""
        return self._child is not None and self._child.running

    @property
    def is_to_end(self) -> bool:
        """Whether there is something for this process to end; what a fork has is its parent's."""
        return self._owner == os.getpid() and not self._is_finished

    def require_fresh(self) -> None:
        """`MonitorError` when the monitor was started before."""
        if self._child is not None or self._is_finished:
            raise MonitorError("a monitor is started once; make another one")

    def begin(self) -> None:
        """Starts the process. `MonitorStartError`; what was made until then is for `finish`."""
        LET_GO[:] = [each for each in LET_GO if each.running]
        self.place.prepare()
        self._guard()
        words = self.place.words()
        console = str(self.place.directory / CONSOLE_OUTPUT)
        with _opened(console) as output, _opened(self.place.outlet(LOG)) as errors:
            self._feeds = self.outlets.open(self.place)
            self._pass_gate(Gate(self._command(words), output, errors))
            self._listen()

    def _command(self, words: list[str]) -> Command:
        settings = self.place.settings
        env = os.environ if settings.env is None else settings.env
        cwd = os.path.abspath(settings.cwd or ".")
        return Command(words, env, cwd, self.place.console_input())

    def _pass_gate(self, gate: Gate) -> None:
        """Lets the process become the monitor after the warden knows of it."""
        self._child = gate.child
        with contextlib.closing(gate):
            self._guard()
            gate.open()
        monitor = self.place.monitor_of(gate.child)
        if monitor is not gate.child:
            gate.child.close()
            self._child = monitor
            self._guard()

    def _guard(self) -> None:
        pidfd = None if self._child is None else self._child.pidfd
        self._key = GUARD.keep(pidfd, self.place.leftovers(), self._key)

    def _release(self) -> None:
        if self._key is not None:
            GUARD.release(self._key)
        self._key = None

    def _listen(self) -> None:
        name = f"monitor-{self.child.pid}"
        feeds, self._feeds = self._feeds, {}
        self._pump = Pump(self.child.pidfd, feeds, self._note_end, name)

    def _note_end(self) -> None:
        """Collects the exit status of a monitor that has ended, so that no zombie stays."""
        self.outlets.end()
        _ = self.is_running

    def settle(self) -> None:
        """Writes a monitor down that is to survive this process, and lets the warden forget it."""
        if self.place.settings.detached:
            write_state(self.place.directory, self.child.pid, self.place.how())
            self._release()

    def take_up(self, state: State) -> None:
        """Goes on with a process that another one started. `MonitorExited` when it has ended."""
        try:
            self._child = state.child()
        except ProcessLookupError as error:
            raise MonitorExited(f"the monitor has ended: {error}") from error
        try:
            self._feeds = self.outlets.open(self.place)
        except OSError as error:
            self._child.close()
            raise MonitorError(f"the monitor's outlets cannot be opened: {error}") from error
        self._listen()

    def note_vsock(self, path: str) -> None:
        """Adds a vsock device's socket, as the monitor says it, to what goes with it."""
        outside = self.place.outside(path)
        sockets = self.place.leftovers().sockets
        if outside not in sockets:
            sockets.append(outside)
            if self._key is not None:
                self._guard()

    def note_vsock_of(self, config: FullVmConfiguration) -> None:
        """Adds the socket of the vsock device that a microVM has, if any."""
        if config.vsock is not None:
            self.note_vsock(config.vsock.uds_path)

    def let_go(self) -> None:
        """Closes this side of a monitor that goes on. `MonitorError` when it cannot."""
        if not self.place.settings.detached:
            raise MonitorError("only a detached monitor can be let go")
        child = self.child
        if self.is_to_end:
            self._is_finished = True
            self._close_pump()
            LET_GO.append(child)

    def finish(self) -> None:
        """Closes what is open and removes the files, after the process has ended."""
        if self.is_to_end:
            self._is_finished = True
            self._close_pump()
            self.place.leftovers().remove()
            self._release()
            if self._child is not None:
                self._child.close()

    def _close_pump(self) -> None:
        if self._pump is not None:
            self._pump.close()
        for descriptor in self._feeds:
            os.close(descriptor)
        self._feeds = {}
        self.outlets.end()

    def require_starting(self, deadline: float, last: VmmError | None) -> None:
        """`MonitorStartError` when a socket that does not answer never will, or not in time."""
        if not self.is_running:
            how = exit_in_words(self.returncode)
            raise MonitorStartError(f"the monitor ended {how} before its socket answered")
        if time.monotonic() > deadline:
            limit = f"within {self.place.settings.timeout} s"
            raise MonitorStartError(f"the monitor's socket did not answer {limit}: {last}")

    def explained(self, error: BaseException) -> BaseException:
        """What a start has failed with, once the monitor has ended."""
        is_of_the_system = isinstance(error, OSError) and not isinstance(error, VmmError)
        if not isinstance(error, MonitorStartError) and not is_of_the_system:
            return error
        found = MonitorStartError(str(error), returncode=self.returncode, log=self.last_words())
        found.__cause__ = error if is_of_the_system else error.__cause__
        return found

    def require_ended(self) -> None:
        """`MonitorError` when even SIGKILL has not ended the process; its files stay."""
        if self.is_running:
            raise MonitorError(f"process {self.child.pid} has been killed and does not end")

    def has_ended_badly(self) -> bool:
        """Whether the monitor has ended by itself, other than because its guest was done."""
        return self.is_to_end and bool(self.returncode)

    def tell_exit(self, error: BaseException | None) -> None:
        """Raises `MonitorExited`, or adds it to the error that is on its way."""
        if error is None:
            raise self.exited()
        if not isinstance(error, MonitorExited):
            error.add_note(str(self.exited()))

    def in_words(self) -> str:
        """The process and its state, for `repr`."""
        if self._child is None:
            return "not started"
        ended = exit_in_words(self.returncode)
        return f"{self._child.pid} {'running' if self.is_running else f'ended {ended}'}"

    def exited(self) -> MonitorExited:
        """The error that says how the monitor ended by itself."""
        code = self.returncode
        what = f"the monitor of {self.place.socket_path} ended {exit_in_words(code)}"
        return MonitorExited(what, returncode=code, log=self.last_words())

    def last_words(self) -> list[str]:
        """The last lines of the log."""
        return self.outlets.last_words(self.place.log_file())


def vsock_path_in(body: bytes) -> str | None:
    """The vsock device's path in a request that sets it or a configuration that has it."""
    with contextlib.suppress(ValueError, TypeError, AttributeError):
        value = json.loads(body)
        device = value.get("vsock") or value.get("vsock_override") or value
        path = device.get("uds_path")
        return path if isinstance(path, str) else None
    return None


@contextlib.contextmanager
def _opened(path: str) -> Iterator[int]:
    descriptor = os.open(path, OUTPUT)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
