"""The whole life of a monitor: its keeper makes everything, starts it, and undoes everything.

`Keeper.live` makes everything and runs the monitor. `Keeper.undo` removes everything. It follows
the program's end, the owner's word `stop` or `kill`, or the end of the owner of a monitor that is
not detached.

The caller is the process that starts the monitor; it is the first owner. An owner says `start`,
`up` (the monitor has responded), `binding` and `bound` (before and after a call that may bind the
socket of a vsock device), `stop` or `kill`. The keeper reports `taken` (the folder), `started`,
`ready` (the socket listens), `noted` (what was bound), `ended` and `removed`.

The nursery forks the keeper in advance (`nursery.py`). The keeper is the parent of its monitor and
a child subreaper (prctl(2)): a process that the program has forked becomes the keeper's child when
its parent ends, even with a session of its own. The keeper collects a child only when the child has
ended, so a process number is never another process's.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Iterable, Sequence

from generated_vmm.process.keeper import kernel, messages, record
from generated_vmm.process.keeper.folder import Folder
from generated_vmm.process.keeper.kernel import Any, Descriptor, Refused
from generated_vmm.process.keeper.record import INPUT, LOG, METRICS, OUTPUT

BOTH_ENDS = os.O_RDWR | os.O_NONBLOCK  # of a fifo: it always has a reader, its writer never waits
READING, WRITING = os.O_RDONLY | os.O_NONBLOCK, os.O_WRONLY | os.O_NONBLOCK
ENDS = ((INPUT, WRITING), (OUTPUT, READING), (LOG, READING), (METRICS, READING))
QUESTION_SECONDS = 0.1  # between the connection of a visitor and its question
LONGEST_UNSEEN = 30.0  # seconds until a keeper without an owner sees that its folder is gone
SHORTEST_PAUSE, LONGEST_PAUSE = 0.001, 0.02  # seconds between two attempts


GOALS = ("take", "start", "up", "stop", "kill")
"""What the owner wants, the strongest last. From UP on, a detached monitor outlives it."""
TAKE, START, UP, STOP, KILL = range(len(GOALS))


class Keeper:
    """The keeper of one monitor."""

    def __init__(self, connection: socket.socket, order: record.Order) -> None:
        self.order, self.record = order, order.record
        self.owner = Conversation(connection, detached=order.detached)
        self.folder, self.program = Folder(order), Program()

    def live(self) -> None:
        """Makes everything, and returns when everything is to be undone. Raises `Refused`, OSError.

        The owner orders the start, and may put files into the jail before.
        """
        kernel.become_subreaper()
        self.folder.take(self._pause)
        self._report_taken()
        while self.owner.goal < START:
            self._look(None)
        self._require_wanted()
        self.folder.make_fifos()
        self._start_program()
        try:
            self._wait_until_it_listens()
            self._report_ready()
            while self.owner.goal < STOP and self._follow_program():
                self._wait_for_news()
        finally:
            if self.owner.is_binding or self.owner.goal == STOP:
                self._note_vsock()

    def undo(self) -> list[str]:
        """Ends every process and removes everything; what could not be removed, and why."""
        status = self.program.kill()
        self.owner.report("ended", "" if status is None else status)
        self.owner.wait(0)  # the owner may have given the monitor up before this report
        has_ended_alone = self.owner.goal == UP and self.owner.is_gone
        self.record.ended = status if has_ended_alone else None
        return self.folder.undo(keeps_folder=has_ended_alone)

    # Those who talk to the keeper

    def _look(self, seconds: float | None) -> None:
        """Waits until something happens, or the time is up."""
        listener = self.folder.listener
        watched = [] if listener is None else [listener.fileno()]
        pidfds = [] if self.program.pidfd is None else [self.program.pidfd.number]
        ready = self.owner.wait(seconds, *watched, *pidfds)
        if listener is not None and listener.fileno() in ready and not ready.intersection(pidfds):
            # not after the program has ended: then visitors read the record
            with contextlib.suppress(OSError):
                self._answer(listener.accept()[0])

    def _answer(self, visitor: socket.socket) -> None:
        """Answers a process that has connected to the folder's socket, and may become the owner.

        Raises OSError.
        """
        self.owner.wait(0)  # it may have ended while others were looked at, before the visitor came
        is_free = self.owner.is_gone
        with contextlib.ExitStack() as stack:
            stack.enter_context(visitor)
            if is_free and self.owner.goal != UP:
                return  # the monitor is about to end, and the visitor waits for that
            visitor.settimeout(QUESTION_SECONDS)
            words, _ = messages.receive(visitor) or ([], [])
            if words == ["attach"] and is_free:
                self._adopt(visitor)
                stack.pop_all()
            elif words:
                how = "detached" if is_free else "owned"
                messages.send(visitor, how, self.program.pid or "", self.record.id or "")

    def _adopt(self, visitor: socket.socket) -> None:
        """Has a visitor as its owner from now on."""
        self.owner.begin(visitor)
        self.owner.report("adopted")
        self._report_taken()
        self._report_started()
        self._report_ready()

    def _pause(self, seconds: float) -> None:
        self._look(seconds)
        self._require_wanted()

    def _require_wanted(self) -> None:
        if self.owner.goal >= STOP:
            raise Refused("the monitor was stopped before its socket responded")

    def _report_taken(self) -> None:
        root = self.folder.root
        self.owner.report("taken", given=[] if root is None else [root.number])

    def _report_started(self) -> None:
        """Gives the owner the process, and new ends of the outlets that are there."""
        opened: dict[str, Descriptor] = {}
        for name, flags in ENDS:
            with contextlib.suppress(OSError):  # the user of a jail may have removed it
                opened[name] = self.folder.open(name, flags)
        given = filter(None, [self.program.pidfd, *opened.values()])
        numbers = [each.number for each in given]
        self.owner.report("started", self.program.pid, *opened, given=numbers)

    def _report_ready(self) -> None:
        self.owner.report("ready", given=[self._api.number])

    # Running

    def _start_program(self) -> None:
        """Its standard input is the locked fifo: without a keeper, the lock says that it runs."""
        opened = [self.folder.open(name, BOTH_ENDS) for name in (OUTPUT, LOG)]
        inherited = [self.folder.taken] if self.order.inherits else []
        self.program.start(self.order, [self.folder.input, *opened, *inherited])
        self._report_started()

    def _follow_program(self) -> bool:
        """Follows the jailer to its child in a new PID namespace; returns whether it runs."""
        if self.program.is_running():
            return True
        is_followed = self.order.new_pid_ns and self.program.become_child()
        if is_followed:
            self._report_started()
        return is_followed

    def _wait_until_it_listens(self) -> None:
        """Raises `Refused` if the monitor has ended, or is not wanted any more."""
        pause = SHORTEST_PAUSE
        while True:
            self._require_wanted()
            if not self._follow_program():
                how = kernel.exit_in_words(self.program.status)
                raise Refused(f"the monitor ended {how} before its socket responded")
            with contextlib.suppress(OSError):
                self._api = self.folder.open_api()
                return
            self._look(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _note_vsock(self) -> None:
        """Notes the socket of a vsock device; whatever the monitor says, the keeper continues.

        What the system refuses, such as one more descriptor, is tried again at the end. A monitor
        in a jail, with which its sockets go, is not asked.
        """
        if not self.record.jailed and self.program.is_running():
            try:
                self.folder.note_vsock(messages.vsock_path(self._api))
            except OSError:
                self.owner.is_binding = True
            except Exception:
                return

    def _wait_for_news(self) -> None:
        """Notes what the monitor has bound, or that nobody can find it, and waits."""
        if self.owner.has_bound:
            self.owner.is_binding = self.owner.has_bound = False
            self._note_vsock()
            self.owner.report("noted")
        if self.owner.is_gone and self.folder.is_gone():
            self.owner.goal = KILL
        else:
            self._look(LONGEST_UNSEEN if self.owner.is_gone else None)


class Conversation:
    """A keeper's side of the connection to its owner. Without an owner, it reports to nobody."""

    def __init__(self, connection: socket.socket, *, detached: bool) -> None:
        self.goal, self._detached = TAKE, detached
        self.is_binding = self.has_bound = False
        self.begin(connection)

    def begin(self, connection: socket.socket) -> None:
        """Talks to a new owner."""
        connection.setblocking(False)
        self._connection: socket.socket | None = connection

    @property
    def is_gone(self) -> bool:
        """Whether there is no owner."""
        return self._connection is None

    def report(self, *words: object, given: Iterable[int] = ()) -> None:
        """Sends the owner an event and what belongs to it, with descriptors."""
        if self._connection is not None:
            messages.send(self._connection, *words, given=given)

    def wait(self, seconds: float | None, *others: int) -> set[int]:
        """Waits for the owner or others, takes the owner's words, and returns what is ready."""
        connection = self._connection
        ours = [] if connection is None else [connection.fileno()]
        ready = kernel.ready_of([*ours, *others], seconds)
        if connection is not None and ready.intersection(ours):
            for received in messages.drain(connection):
                if received is None:
                    self._lose_owner()
                else:
                    self._take(received[0])
        return ready

    def _take(self, words: Sequence[str]) -> None:
        """Takes a word. Any other message changes nothing."""
        word = words[0]
        self.is_binding |= word == "binding"
        self.has_bound |= word == "bound"
        if word in GOALS:
            self.goal = max(self.goal, GOALS.index(word))

    def _lose_owner(self) -> None:
        """Continues without an owner. A monitor that is not detached is to be killed."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None
        self.has_bound |= self.is_binding
        if not self._detached or self.goal < UP:
            self.goal = KILL


class Program:
    """A process, from its start to its exit status."""

    def __init__(self) -> None:
        self.pid = 0
        self.pidfd: Descriptor | None = None
        self.status: int | None = None

    def start(self, order: record.Order, given: Sequence[Descriptor]) -> None:
        """Starts it with these descriptors as its first ones. Raises `Refused`."""
        life, self._life = (Descriptor(int, each) for each in os.pipe())
        with kernel.About("cwd", order.cwd):
            os.chdir(order.cwd)
        with kernel.About("binary", order.argv[0]):
            numbers = [each.number for each in (*given, life)]
            self.pid = kernel.spawn(order.argv, order.env, numbers)
        os.chdir("/")
        self.pidfd = Descriptor(os.pidfd_open, self.pid)
        kernel.end_with_us(self.pid, life.number)

    def is_running(self) -> bool:
        """Whether it runs. It is collected once it has ended, and has a status then."""
        if self.status is None and self.pidfd is not None and kernel.is_ready(self.pidfd.number):
            self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.status is None

    def become_child(self) -> bool:
        """Continues with its child, if it has ended well: it was a jailer."""
        if self.status == 0 and (left := kernel.children(os.getpid())):
            self.pid, self.status = left[0], None
            self.pidfd = Descriptor(os.pidfd_open, self.pid)
        return self.status is None

    def kill(self) -> int | None:
        """Kills it with all that it has forked; its status."""
        if self.pid and self.status is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)  # at once, whatever it forks
        ended = kernel.kill_children()
        self.status = ended.get(self.pid, self.status)
        return self.status


def keep(order: dict[str, Any], connection: socket.socket) -> None:
    """Keeps one monitor until nothing of it is left. The arguments are those of `taps.keep`."""
    its = record.Record(**order.pop("record"))
    keeper, failure = Keeper(connection, record.Order(record=its, **order)), ""
    try:
        keeper.live()
    except Exception as error:
        failure = str(error) if isinstance(error, Refused | OSError) else repr(error)
    left = keeper.undo()
    keeper.owner.report("removed", failure, *left)


def clean(path: str) -> None:
    """Removes what a killed keeper has left. Raises `Refused`, OSError."""
    with (
        contextlib.suppress(FileNotFoundError, NotADirectoryError),
        record.open_private(path) as folder,
    ):
        if kernel.lock(folder.number):
            record.remove_leftover(folder.number, path, keeps_folder=False)
