"""The whole life of a monitor: its keeper makes everything, starts it, and undoes everything.

A keeper is the parent of its monitor and a child subreaper (prctl(2)): whatever the program forks,
with or without a session of its own, becomes the keeper's child when its parent ends. No child is
collected before its end is known, so their numbers are their own. The keeper ends when its program
ends, its owner says so, or its owner is gone and the monitor is not detached.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time

from generated_vmm.process.keeper import kernel, messages
from generated_vmm.process.keeper.annotations import Any
from generated_vmm.process.keeper.api import Api
from generated_vmm.process.keeper.conversation import Conversation, Goal, Order
from generated_vmm.process.keeper.folder import Folder
from generated_vmm.process.keeper.folders import open_private
from generated_vmm.process.keeper.kernel import Descriptor, Refused
from generated_vmm.process.keeper.program import Program
from generated_vmm.process.keeper.record import INPUT, LOG, METRICS, OUTPUT, Record
from generated_vmm.process.keeper.removal import remove_leftover

BOTH_ENDS = os.O_RDWR | os.O_NONBLOCK  # of a fifo: it always has a reader, its writer never waits
READING, WRITING = os.O_RDONLY | os.O_NONBLOCK, os.O_WRONLY | os.O_NONBLOCK
ENDS = ((INPUT, WRITING), (OUTPUT, READING), (LOG, READING), (METRICS, READING))
ASKING_SECONDS, LAST_ASKING_SECONDS, TERMINATING_SECONDS = 1.0, 0.2, 2.0
QUESTION_SECONDS = 0.1  # for a guest, who asks as soon as it comes
LONGEST_UNSEEN = 30.0  # seconds until a monitor without an owner notes that its folder is gone
SHORTEST_PAUSE, LONGEST_PAUSE = 0.001, 0.02  # seconds between two attempts
CONFIGURES = "--config-file"  # the only way to bind more than the API before there is a client


class Unwanted(Exception):
    """The owner wants something else meanwhile."""


class Keeper:
    """The keeper of one monitor."""

    def __init__(self, owner: socket.socket, caller: Descriptor, order: Order) -> None:
        self.order, self.record = order, order.record
        self.owner, self.folder = Conversation(owner, caller), Folder(order)
        self.program, self.is_up = Program(), False

    def live(self) -> None:
        """Makes everything, and returns when everything is to be undone. Raises `Refused`, OSError.

        The owner orders the start, and may put files into the jail before.
        """
        kernel.become_subreaper()
        self.folder.take(self._pause)
        self._tell_taken()
        while self.owner.goal < Goal.START:
            self._look(None)
        self._require_wanted()
        self.folder.make_fifos()
        self._api = self._api_in(*self.folder.hold_socket())
        self._start_program()
        self._wait_until_ready()
        if any(each.startswith(CONFIGURES) for each in self.order.argv):
            self._note_vsock(ASKING_SECONDS)
        if self.record.sockets:  # their identities are known now
            self.folder.save()
        self.is_up, self.owner.outlives_owner = True, self.order.detached
        self._tell_ready()
        while self.owner.goal < Goal.STOP and self._is_running():
            self._wait_for_news()
        self._end()

    def undo(self) -> list[str]:
        """Ends every process and removes everything; what could not be removed, and why."""
        status = self.program.kill()
        self.owner.tell("ended", status=status)
        self.owner.wait(0)  # the owner may have given the monitor up before it was told
        has_ended_alone = self.is_up and self.owner.pid is None and self.owner.goal < Goal.STOP
        self.record.ended = status if has_ended_alone else None
        return self.folder.undo(keeps_folder=has_ended_alone)

    # Those who talk to the keeper

    def _look(self, seconds: float | None, *others: socket.socket) -> None:
        """Waits until something happens, or the time is up."""
        listener = self.folder.listener
        watched = [each.fileno() for each in (*others, *filter(None, [listener]))]
        pidfds = [] if self.program.pidfd is None else [self.program.pidfd.number]
        ready = self.owner.wait(seconds, *watched, *pidfds)
        if listener is not None and listener.fileno() in ready and not ready.intersection(pidfds):
            with contextlib.suppress(OSError):  # at its end they read the record instead
                self._answer(listener.accept()[0])

    def _answer(self, guest: socket.socket) -> None:
        """Answers somebody who came to the folder, and may become the owner. Raises OSError."""
        with guest:
            guest.settimeout(QUESTION_SECONDS)
            said, given = messages.receive(guest) or ({"word": ""}, [])
            is_adopted = said["word"] == "attach" and self.owner.pid is None and self.is_up
            if is_adopted:
                owner, caller = given
                self.owner.begin(messages.connection_of(owner), caller)
            known = {"owner": self.owner.pid, "pid": self.program.pid or None, "id": self.record.id}
            messages.send(guest, {"is_adopted": is_adopted, **known})
        if is_adopted:
            self._tell_taken()
            self._tell_started()
            self._tell_ready()

    def _pause(self, seconds: float) -> None:
        self._look(seconds)
        self._require_wanted()

    def _require_wanted(self) -> None:
        if self.owner.goal >= Goal.STOP:
            raise Refused("the monitor was stopped before its socket responded")

    def _wait(self, seconds: float, connection: socket.socket) -> None:
        """Waits for a response. Raises `Unwanted`, ConnectionError if the monitor has ended."""
        goal = self.owner.goal
        self._look(seconds, connection)
        if self.owner.goal > goal:
            raise Unwanted
        if not self._is_running() and not kernel.is_ready(connection.fileno()):
            raise ConnectionError("the monitor has ended")

    def _tell_taken(self) -> None:
        root = self.folder.root
        self.owner.tell("taken", [] if root is None else [root.number])

    def _tell_started(self) -> None:
        """Gives the owner the process, and new ends of the outlets that are there."""
        opened: dict[str, Descriptor] = {}
        for name, flags in ENDS:
            with contextlib.suppress(OSError):  # the user of a jail may have removed it
                opened[name] = self.folder.open(name, flags)
        given = filter(None, [self.program.pidfd, *opened.values()])
        numbers = [each.number for each in given]
        self.owner.tell("started", numbers, pid=self.program.pid, outlets=list(opened))

    def _tell_ready(self) -> None:
        self.owner.tell("ready", [self._api.opened().number])

    # Running

    def _start_program(self) -> None:
        """Its standard input is the fifo whose lock says that the monitor runs."""
        opened = [self.folder.open(name, BOTH_ENDS) for name in (OUTPUT, LOG)]
        inherited = [self._api.folder] if self.order.inherits else []
        self.program.start(self.order, [self.folder.input, *opened, *inherited])
        self._tell_started()

    def _is_running(self) -> bool:
        """Whether the monitor runs. A jailer with a new PID namespace ends before its monitor."""
        if self.program.is_running():
            return True
        is_followed = self.order.new_pid_ns and not self.is_up and self.program.become_child()
        if is_followed:
            self._tell_started()
        return is_followed

    def _wait_until_ready(self) -> None:
        """Waits until the socket responds. Raises `Refused` if it never will, or too late."""
        timeout, pause, last = self.order.timeout, SHORTEST_PAUSE, ""
        deadline = time.monotonic() + timeout
        while (left := deadline - time.monotonic()) > 0:
            self._require_wanted()
            if not self._is_running():
                how = kernel.exit_in_words(self.program.status)
                raise Refused(f"the monitor ended {how} before its socket responded")
            with contextlib.suppress(Unwanted):
                try:
                    self._api.call(left, "/")
                    for each in self.record.sockets:
                        each.id = kernel.identity(self._api.opened().number)
                    return
                except (OSError, ValueError) as error:
                    last = str(error)
            self._look(min(pause, left))
            pause = min(2 * pause, LONGEST_PAUSE)
        raise Refused(f"the monitor's socket did not respond within {timeout} s: {last}")

    def _wait_for_news(self) -> None:
        """Notes what the monitor has bound, or that nobody can find it, and waits."""
        if self.owner.has_bound:
            self._note_vsock(ASKING_SECONDS)
            self.owner.tell("noted")
        is_alone = self.owner.pid is None
        if is_alone and self.folder.is_gone():
            self.owner.goal = Goal.KILL
        else:
            self._look(LONGEST_UNSEEN if is_alone else None)

    def _note_vsock(self, seconds: float) -> None:
        """Asks the monitor which socket its vsock device has, and notes it.

        The answer is the monitor's word: it may be anything.
        """
        self.owner.has_bound = False
        with contextlib.suppress(OSError, Unwanted, LookupError, TypeError, ValueError, Refused):
            path = self._api.call(seconds, "/vm/config")["vsock"]["uds_path"]
            if not self.record.jailed:
                self.folder.note_socket(os.path.join(self.order.cwd, path), self._identity_of)

    def _identity_of(self, folder: Descriptor, name: str) -> list[int]:
        """The identity of a socket if a process of the monitor listens there, else OSError."""
        found = self._api_in(folder, name).opened()
        return kernel.identity(found.number)

    def _api_in(self, folder: Descriptor, path: str) -> Api:
        return Api(folder, path, self.order.owner[0], self._wait)

    # Ending

    def _end(self) -> None:
        """Ends the monitor: a running guest gets Ctrl+Alt+Del and its grace period, then SIGTERM.

        Before, the monitor is asked once more what it bound. Nothing here is needed for `undo`.
        """
        self._note_vsock(LAST_ASKING_SECONDS)
        if self._is_to_stop() and self.owner.grace:
            with contextlib.suppress(Unwanted, OSError, LookupError, TypeError, ValueError):
                self._ask_guest()
        if self._is_to_stop() and not self.order.new_pid_ns:
            os.kill(self.program.pid, signal.SIGTERM)
            self._wait_for_end(TERMINATING_SECONDS)

    def _ask_guest(self) -> None:
        if self._api.call(ASKING_SECONDS, "/")["state"] == "Running":
            self._api.call(ASKING_SECONDS, "/actions", {"action_type": "SendCtrlAltDel"})
            self._wait_for_end(None)

    def _is_to_stop(self) -> bool:
        return self.owner.goal is Goal.STOP and self._is_running()

    def _wait_for_end(self, seconds: float | None) -> None:
        """Waits for the end; None: at most the shortest grace that an owner has given."""
        begun = time.monotonic()
        while self._is_to_stop():
            left = begun + (self.owner.grace if seconds is None else seconds) - time.monotonic()
            if left <= 0:
                return
            self._look(left)


def keep(
    said: dict[str, Any], owner: socket.socket, caller: Descriptor, content: list[Descriptor]
) -> None:
    """Keeps one monitor until nothing of it is left."""
    order = messages.content_of(content[0].number)
    content.clear()  # its memory
    record = Record(**order.pop("record"))
    keeper, failure = Keeper(owner, caller, Order(record=record, **order)), ""
    try:
        keeper.live()
    except Exception as error:
        failure = str(error) if isinstance(error, Refused | OSError) else repr(error)
    left = keeper.undo()
    keeper.owner.tell("removed", failure=failure, left=left)


def recover(said: dict[str, Any]) -> None:
    """Removes what a keeper has left that was killed. Raises `Refused`, OSError."""
    path = said["path"]
    with (
        contextlib.suppress(FileNotFoundError, NotADirectoryError),
        open_private(path) as folder,
    ):
        if kernel.lock(folder.number):
            remove_leftover(folder.number, path, keeps_folder=False)
