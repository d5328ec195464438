"""The whole life of a monitor: its keeper makes everything, starts it, and undoes everything.

A keeper is the parent of its monitor and a child subreaper (prctl(2)): whatever the program forks,
with or without a session of its own, becomes the keeper's child when its parent ends. No child is
collected before its end is known, so their numbers are their own. The keeper ends when its program
ends, its owner says so, or its owner is gone and the monitor is not detached.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import socket
import stat
import time
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from generated_vmm.process.keeper import messages
from generated_vmm.process.keeper.conversation import Conversation, Goal
from generated_vmm.process.keeper.folders import (
    enter,
    entry_of,
    make_folder,
    make_parents,
    open_private,
    require_private,
    require_trusted_path,
    require_unreadable,
    sweep,
)
from generated_vmm.process.keeper.kernel import (
    FOLDER,
    LONGEST_END,
    PAUSE,
    Refused,
    about,
    become_subreaper,
    children,
    end_with_parent,
    exit_in_words,
    holders,
    identity,
    in_words,
    is_ready,
    kill_children,
    lock,
)
from generated_vmm.process.keeper.leftovers import INPUT, remove_leftover
from generated_vmm.process.keeper.monitor import Api
from generated_vmm.process.keeper.record import (
    RECORD,
    Group,
    Record,
    Socket,
    boot_id,
    write_record,
)
from generated_vmm.process.keeper.removal import is_served, remove

ROOT = "root"  # of a jail
SOCKET, OUTPUT, LOG, METRICS = "api.socket", "console.out", "log", "metrics"
BOTH_ENDS = os.O_RDWR | os.O_NONBLOCK  # of a fifo: it always has a reader, its writer never waits
READING, WRITING = os.O_RDONLY | os.O_NONBLOCK, os.O_WRONLY | os.O_NONBLOCK
GIVEN_FOLDER = 3  # the descriptor of the socket's folder in a monitor, if its path is too long
ABOVE = 10  # descriptors that are not those of a program
ASKING_SECONDS, LAST_ASKING_SECONDS, TERMINATING_SECONDS = 1.0, 0.2, 2.0
SHORTEST_PAUSE, LONGEST_PAUSE = 0.001, 0.02  # seconds between two attempts
MOST_SOCKETS, ATTEMPTS = 16, 100
RESET = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ)


class Unwanted(Exception):
    """The owner wants something else meanwhile."""


class Keeper(Conversation):
    """The keeper of one monitor."""

    def __init__(self, owner: socket.socket, caller: int, record: Record, mode: int) -> None:
        super().__init__(owner, caller, record)
        self._mode = mode
        self.status: int | None = None
        self._folder = self._root = self._input = -1
        self._api: Api
        self._patience = Goal.START
        self._vsock: str | None = None

    def live(self) -> None:
        """Makes everything, and returns when everything is to be undone. Raises `Refused`, OSError.

        The owner orders the start, and may put files into the jail before.
        """
        become_subreaper()
        self._take()
        self._tell("taken", how=self.record.how, given=[self._root] if self.record.jailed else [])
        while self.goal < Goal.START:
            self._look(None)
        self._require_wanted()
        self._make_fifos()
        self._make_groups()
        self._prepare_socket()
        self._start_program()
        self._wait_until_ready()
        self._patience = Goal.STOP
        self._note(ASKING_SECONDS)
        if self.record.groups or self.record.sockets:  # their identities are known now
            self._save()
        self.is_up = True
        self._tell_ready()
        while self.goal < Goal.STOP and self._is_running():
            self._look(None)
            if self._has_bound:
                self._note(ASKING_SECONDS)
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
        self._tell("taken", how=self.record.how, given=[self._root] if self.record.jailed else [])
        self._tell_started()
        self._tell_ready()

    def _require_wanted(self) -> None:
        if self.goal >= Goal.STOP:
            raise Refused("the monitor was stopped before its socket responded")

    # Making

    def _take(self) -> None:
        """Makes the folder, or takes over one without a keeper, and locks it."""
        path, deadline = self.record.path, time.monotonic() + LONGEST_END
        self.record.boot = boot_id()
        while self._folder < 0:
            self._require_wanted()
            sweep(path)
            if self.record.jailed:
                base = self.record.how["settings"]["chroot_base_dir"]
                with about("chroot_base_dir", base):
                    make_parents(path, private=True)
                for folder in (base, os.path.dirname(path)):
                    require_private(folder, os.stat(folder))
            require_trusted_path(path)
            with about("directory", path):
                if os.path.lexists(path):
                    self._take_over(path, deadline)
                elif (made := make_folder(self.record, self._mode)) is not None:
                    self._folder = made
        self._listen()
        if self.record.jailed:
            os.mkdir(ROOT, 0o755, dir_fd=self._folder)
            self._root = os.open(ROOT, FOLDER, dir_fd=self._folder)

    def _take_over(self, path: str, deadline: float) -> None:
        """Takes a folder that exists, unless it has just been removed."""
        try:
            folder = open_private(path)
        except FileNotFoundError:
            return
        try:
            require_unreadable(path, os.fstat(folder))
            if not lock(folder):
                self._require_unowned(folder, path, deadline)
            elif os.path.lexists(path) and identity(os.path.realpath(path)) == identity(folder):
                self._reuse(folder, path)
                self._folder, folder = folder, -1
        finally:
            if folder >= 0:
                os.close(folder)

    def _require_unowned(self, folder: int, path: str, deadline: float) -> None:
        """Waits a moment for a keeper that is about to end. Raises `Refused` for another."""
        seen = messages.ask(folder, ASKING_SECONDS)
        if seen is not None and seen["status"] == "detached":
            raise Refused(f"a detached monitor runs in {path}: attach to it")
        if seen is not None:
            raise Refused(f"{path} is in use by process {seen['owner']}")
        if time.monotonic() > deadline:
            raise Refused(f"{path} is in use by {in_words(holders(folder))}")
        self._look(PAUSE)

    def _reuse(self, folder: int, path: str) -> None:
        before = remove_leftover(folder, path, keeps_folder=True)
        if self.record.jailed and set(os.listdir(folder)) - {RECORD}:
            raise Refused(f"{path} exists: it is another jail, or something is mounted in it")
        self.record.made = before is not None and before.made
        self.record.entry = entry_of(os.fstat(folder))
        write_record(folder, self.record)
        enter(self.record.entry, path)

    def _listen(self) -> None:
        """Later owners, and those who ask, come to a socket in the folder."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(messages.KEEPER, dir_fd=self._folder)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        before = os.umask(0o177)
        self._listener.bind(f"/proc/self/fd/{self._folder}/{messages.KEEPER}")
        os.umask(before)
        self._listener.listen()

    def _make_fifos(self) -> None:
        for name in (INPUT, OUTPUT):
            self._make_fifo(name, self._folder)
        for name in (LOG, METRICS):
            self._make_fifo(name, self._place_of(name))
        self._input = self._open(INPUT, os.O_RDWR)
        lock(self._input)

    def _place_of(self, name: str) -> int:
        return self._root if self.record.jailed and name in (LOG, METRICS) else self._folder

    def _open(self, name: str, flags: int) -> int:
        found = os.open(name, flags | os.O_NOFOLLOW, dir_fd=self._place_of(name))
        if not stat.S_ISFIFO(os.fstat(found).st_mode):
            os.close(found)
            raise FileNotFoundError(f"{name} is no fifo")
        return found

    def _make_fifo(self, name: str, folder: int) -> None:
        """Makes a fifo that only its owner may use, in place of an older one."""
        with contextlib.suppress(FileNotFoundError):
            if stat.S_ISFIFO(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                os.unlink(name, dir_fd=folder)
        with about("the fifo", os.path.join(self.record.path, name), "cannot be created"):
            os.mkfifo(name, 0o600, dir_fd=folder)
        if folder == self._root and self.order.owner is not None:  # the jailed user's
            fifo = self._open(name, READING)
            os.fchown(fifo, *self.order.owner)
            os.close(fifo)

    def _make_groups(self) -> None:
        """Makes the control groups that the jailer would make, so that they end with the monitor.

        They are in the record before they are made.
        """
        for path in self.order.groups:
            group = Group(path)
            self.record.groups.append(group)
            self._save()
            for attempt in range(ATTEMPTS):
                with about("cgroups", path):
                    make_parents(path, private=False)
                    try:
                        os.mkdir(path, 0o755)
                        group.id = identity(path)
                        break
                    except FileExistsError:
                        self.record.groups.remove(group)
                        what = "exists: another jail may use it, else remove it"
                        raise Refused(f"the control group {path} {what}") from None
                    except FileNotFoundError:  # another jail has just removed the parent
                        if attempt == ATTEMPTS - 1:
                            raise

    def _prepare_socket(self) -> None:
        """Requires that the API's place is free."""
        folder, name = self.order.socket
        if self.record.jailed:
            self._api = self._api_in(self._root, name)
        elif not folder:
            with contextlib.suppress(FileNotFoundError):  # of a monitor without a keeper
                os.unlink(name, dir_fd=self._folder)
            self._api = self._api_in(self._folder, name)
        else:
            self._api = self._api_in(self._hold_free(folder, name), name)

    def _api_in(self, folder: int, path: str) -> Api:
        return Api(folder, path, self.record.user, self._wait)

    def _hold_free(self, folder: str, name: str) -> int:
        """The folder of a socket outside of the monitor's, which is in the record from now on."""
        path = f"{folder}/{name}"
        with about("socket_path", path):
            held = os.open(folder, os.O_PATH | os.O_DIRECTORY)
        if is_served(f"/proc/self/fd/{held}/{name}"):
            raise Refused(f"{path} is in use: another process listens there")
        if os.path.lexists(f"/proc/self/fd/{held}/{name}"):
            what = "exists although nothing listens there; remove it if it is not needed"
            raise Refused(f"{path} {what}")
        self.record.sockets.append(Socket(folder, identity(held), name, held=held))
        self._save()
        return held

    def _save(self) -> None:
        with about("directory", self.record.path):
            write_record(self._folder, self.record)

    # Running

    def _start_program(self) -> None:
        """Starts the program or the jailer as a child of this process."""
        output, log = self._open(OUTPUT, BOTH_ENDS), self._open(LOG, BOTH_ENDS)
        reading, writing = os.pipe()
        with about("binary", self.order.argv[0]):
            self._leader = os.fork()
        if self._leader == 0:
            self._become_program(writing, (self._input, output, log))
        self._pidfd = os.pidfd_open(self._leader)
        self._tell_started()
        for each in (writing, output, log):
            os.close(each)
        told = os.read(reading, 4096)  # nothing: it has become the program
        os.close(reading)
        if told:
            number, text = json.loads(told)
            raise Refused(f"the monitor cannot be started: {text}") from OSError(number, text)

    def _become_program(self, writing: int, given: Sequence[int]) -> NoReturn:
        """In the child: a session of its own, so that a terminal's Ctrl+C reaches the caller alone.

        Standard input is the fifo whose lock says that the monitor runs.
        """
        try:
            os.setsid()
            if not self.record.jailed:
                end_with_parent()
            held = self.record.sockets[0].held if self.record.sockets else self._folder
            sources = [*given, *([held or 0] if self.order.inherits else [])]
            above = [fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, ABOVE) for each in sources]
            for number, each in enumerate(above):
                os.dup2(each, number)
            for signum in RESET:
                signal.signal(signum, signal.SIG_DFL)
            with about("cwd", self.order.cwd):
                os.chdir(self.order.cwd)
            with about("binary", self.order.argv[0]):
                os.execve(self.order.argv[0], [*self.order.argv], self.order.env)  # noqa: S606  # its purpose
        except BaseException as error:
            cause = error.__cause__
            number = (isinstance(cause, OSError) and cause.errno) or 0
            os.write(writing, json.dumps([number, str(error)]).encode()[:4096])
        os._exit(127)

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
        if self.status is None and self._pidfd >= 0 and is_ready(self._pidfd, 0):
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
