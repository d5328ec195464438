"""The whole life of a monitor: its keeper makes everything, starts it, and undoes everything.

A keeper is the parent of its monitor and a child subreaper (prctl(2)): whatever the program forks,
with or without a session of its own, becomes the keeper's child when its parent ends. No child is
collected before its end is known, so their numbers are their own. The keeper ends when its program
ends, its owner says so, or its owner is gone and the monitor is not detached.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import socket
import time
from collections.abc import Mapping
from typing import Any

from generated_vmm.process.keeper.conversation import Goal
from generated_vmm.process.keeper.folders import remove_parents
from generated_vmm.process.keeper.kernel import (
    Refused,
    about,
    become_subreaper,
    children,
    end_with_us,
    exit_in_words,
    identity,
    is_ready,
    kill_children,
)
from generated_vmm.process.keeper.making import ASKING_SECONDS, READING, Making
from generated_vmm.process.keeper.record import INPUT, LOG, METRICS, OUTPUT, Record, Socket
from generated_vmm.process.keeper.removal import remove

BOTH_ENDS = os.O_RDWR | os.O_NONBLOCK  # of a fifo: it always has a reader, its writer never waits
WRITING = os.O_WRONLY | os.O_NONBLOCK
GIVEN_FOLDER = 3  # the descriptor of the socket's folder in a monitor, if its path is too long
ABOVE = 10  # descriptors that are not those of a program
LAST_ASKING_SECONDS, TERMINATING_SECONDS = 0.2, 2.0
SHORTEST_PAUSE, LONGEST_PAUSE = 0.001, 0.02  # seconds between two attempts
CONFIGURES = "--config-file"  # the only way to bind more than the API before there is a client
MOST_SOCKETS = 16
RESET = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ)


class Unwanted(Exception):
    """The owner wants something else meanwhile."""


class Keeper(Making):
    """The keeper of one monitor."""

    def __init__(self, owner: socket.socket, caller: int, record: Record, mode: int) -> None:
        super().__init__(owner, caller, record, mode)
        self.status: int | None = None
        self._patience = Goal.START
        self._vsock: str | None = None

    def live(self) -> None:
        """Makes everything, and returns when everything is to be undone. Raises `Refused`, OSError.

        The owner orders the start, and may put files into the jail before.
        """
        become_subreaper()
        self._take()
        self._tell_taken()
        while self.goal < Goal.START:
            self._look(None)
        self._require_wanted()
        self._make_fifos()
        self._make_groups()
        self._prepare_socket()
        self._start_program()
        self._wait_until_ready()
        self._patience = Goal.STOP
        if any(each.startswith(CONFIGURES) for each in self.order.argv):
            self._note(ASKING_SECONDS)
        if self.record.groups or self.record.sockets:  # their identities are known now
            self._save()
        self.is_up = True
        self._tell_ready()
        while self.goal < Goal.STOP and self._is_running():
            self._look(None)
            if self._has_bound:
                self._note(ASKING_SECONDS)
            if self._owner is None:
                self._stay_reachable()
        self._end()

    def undo(self) -> list[str]:
        """Ends every process and removes everything; what could not be removed, and why."""
        if self._listener is not None:
            self._listener.close()
        if self._leader and self.status is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._leader, signal.SIGKILL)  # at once, whatever it forks
        ended = kill_children()
        self.status = ended.get(self._leader, self.status)
        self._tell("ended", status=self.status)
        if self._folder < 0:
            if self.record.jailed:
                remove_parents(self.record.path)
            return []
        has_ended_alone = self.is_up and self._owner is None and self.goal < Goal.STOP
        self.record.ended = self.status if has_ended_alone else None
        left = remove(self.record, self._folder, keeps_folder=has_ended_alone)
        os.close(self._folder)  # before the owner hears of it: it may start another one here
        return left

    def tell_removed(self, failure: Mapping[str, Any] | None, left: list[str]) -> None:
        """Tells the owner that nothing is left to do."""
        self._tell("removed", failure=failure, left=left)

    def _adopt(self) -> None:
        self._tell_taken()
        self._tell_started()
        self._tell_ready()

    def _tell_taken(self) -> None:
        self._tell("taken", [self._root] if self.record.jailed else [])

    # Running

    def _start_program(self) -> None:
        """Starts the program or the jailer as a child of this process.

        It has a session of its own, so that a terminal's Ctrl+C reaches the caller alone. Standard
        input is the fifo whose lock says that the monitor runs. It is spawned, not forked: a fork
        of this process copies what both touch.
        """
        output, log = self._open(OUTPUT, BOTH_ENDS), self._open(LOG, BOTH_ENDS)
        held = self.record.sockets[0].held if self.record.sockets else self._folder
        life, self._life = os.pipe()
        given = [held or 0] if self.order.inherits else []
        sources = [self._input, output, log, *given, life]
        above = [fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, ABOVE) for each in sources]
        with about("cwd", self.order.cwd):
            os.chdir(self.order.cwd)
        with about("binary", self.order.argv[0]):
            self._leader = os.posix_spawn(
                self.order.argv[0],
                [*self.order.argv],
                self.order.env,
                file_actions=[(os.POSIX_SPAWN_DUP2, each, at) for at, each in enumerate(above)],
                setsid=True,
                setsigmask=(),
                setsigdef=RESET,
            )
        os.chdir("/")
        self._pidfd = os.pidfd_open(self._leader)
        end_with_us(self._leader, life)
        self._tell_started()
        for each in (life, output, log, *above):
            os.close(each)

    def _tell_started(self) -> None:
        """Gives the owner the process, and new ends of the outlets that are there."""
        opened: dict[str, int] = {}
        for name, flags in (
            (INPUT, WRITING),
            (OUTPUT, READING),
            (LOG, READING),
            (METRICS, READING),
        ):
            with contextlib.suppress(OSError):  # the user of a jail may have removed it
                opened[name] = self._open(name, flags)
        given = [self._pidfd, *opened.values()]
        self._tell("started", given, pid=self._leader, outlets=list(opened))
        for each in opened.values():
            os.close(each)

    def _is_running(self) -> bool:
        """Whether the monitor runs. A jailer with a new PID namespace ends before its monitor."""
        if self.status is None and self._has_ended():
            self.status = os.waitstatus_to_exitcode(os.waitpid(self._leader, 0)[1])
            if self.order.follows and self.status == 0 and not self.is_up and (left := children()):
                self._leader, self.status = left[0], None
                os.close(self._pidfd)
                self._pidfd = os.pidfd_open(self._leader)
                self._tell_started()
                self.order.follows = False
        return self.status is None

    def _wait_until_ready(self) -> None:
        """Waits until the socket responds. Raises `Refused` if it never will, or too late."""
        timeout, pause, last = self.order.timeout, SHORTEST_PAUSE, ""
        deadline = time.monotonic() + timeout
        while True:
            self._require_wanted()
            if not self._is_running():
                how = exit_in_words(self.status)
                raise Refused(f"the monitor ended {how} before its socket responded")
            if (left := deadline - time.monotonic()) <= 0:
                limit = f"within {timeout} s: {last}"
                raise Refused(f"the monitor's socket did not respond {limit}")
            with contextlib.suppress(Unwanted):
                try:
                    self._api.call(left, "/")
                    for each in self.record.sockets:
                        each.id = identity(self._api.open())
                    return
                except (OSError, ValueError) as error:
                    last = str(error)
            self._look(min(pause, left))
            pause = min(2 * pause, LONGEST_PAUSE)

    def _wait(self, seconds: float, connection: socket.socket) -> None:
        """Waits for a response. Raises `Unwanted`, ConnectionError if the monitor has ended."""
        self._look(seconds, connection)
        if self.goal > self._patience:
            raise Unwanted
        if not self._is_running() and not is_ready(connection.fileno(), 0):
            raise ConnectionError("the monitor has ended")

    def _note(self, seconds: float) -> None:
        """Asks the monitor which socket its vsock device has, and notes it.

        The answer is the monitor's word: it may be anything.
        """
        self._has_bound = False
        with contextlib.suppress(OSError, Unwanted, LookupError, TypeError, ValueError):
            vsock = self._api.call(seconds, "/vm/config").get("vsock") or {}
            self._vsock, self._may_bind = vsock.get("uds_path"), False
        if isinstance(self._vsock, str) and not self.record.jailed:
            with contextlib.suppress(OSError, ValueError):
                self._note_socket(os.path.join(self.order.cwd, self._vsock))
        if self.is_up:
            self._tell("noted", vsock=self._vsock)

    def _note_socket(self, path: str) -> None:
        """Notes a socket, if a process of the monitor listens there."""
        folder, name = os.path.split(path)
        held = os.open(folder, os.O_PATH | os.O_DIRECTORY)
        noted = Socket(folder, identity(held), name, held=held)
        known = [(each.folder_id, each.id) for each in self.record.sockets]
        with contextlib.suppress(OSError):
            noted.id = identity(self._api_in(held, name).open())
        is_new = (noted.folder_id, noted.id) not in known and len(known) < MOST_SOCKETS
        if noted.id is None or not is_new:
            return os.close(held)
        self.record.sockets.append(noted)
        self._save()

    def _tell_ready(self) -> None:
        self._tell("ready", [self._api.open()], vsock=self._vsock)

    # Ending

    def _end(self) -> None:
        """Ends the monitor: a running guest gets Ctrl+Alt+Del and its grace period, then SIGTERM.

        Before, the monitor is asked once more what it bound. Nothing here is needed for `undo`.
        """
        if self.goal is not Goal.KILL or self._may_bind or self._owner is None:
            self._patience = max(self.goal, Goal.STOP)
            self._note(LAST_ASKING_SECONDS)
        self._patience = Goal.STOP
        with contextlib.suppress(Unwanted):
            if self.goal is Goal.STOP:
                with contextlib.suppress(OSError, LookupError, TypeError, ValueError):
                    if self.grace and self._api.call(ASKING_SECONDS, "/")["state"] == "Running":
                        self._api.call(
                            ASKING_SECONDS, "/actions", {"action_type": "SendCtrlAltDel"}
                        )
                        self._wait_for_end(None)
            if self.goal is Goal.STOP and self._is_running() and not self.record.how["is_init"]:
                os.kill(self._leader, signal.SIGTERM)
                self._wait_for_end(TERMINATING_SECONDS)

    def _wait_for_end(self, seconds: float | None) -> None:
        """Waits for the end; None: at most the shortest grace that an owner has given."""
        begun = time.monotonic()
        while self._is_running() and self.goal < Goal.KILL:
            left = begun + (self.grace if seconds is None else seconds) - time.monotonic()
            if left <= 0:
                return
            self._look(left)


def keep(owner: socket.socket, caller: int, record: Mapping[str, Any], mode: int) -> None:
    """Keeps one monitor until nothing of it is left. `mode` is that of its folder."""
    owner.setblocking(False)
    keeper, failure = Keeper(owner, caller, Record(**record), mode), None
    try:
        keeper.live()
    except Exception as error:
        failure = described(error)
    keeper.tell_removed(failure, keeper.undo())


def described(error: Exception) -> dict[str, Any]:
    """An error as a message: its text, and number and path of the system's error behind it."""
    cause = error.__cause__ if isinstance(error.__cause__, OSError) else error
    number, path = getattr(cause, "errno", None), getattr(cause, "filename", None)
    text = str(error) if isinstance(error, Refused | OSError) else repr(error)
    return {"text": text, "errno": number, "path": path if isinstance(path, str) else None}
