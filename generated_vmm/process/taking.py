"""Taking a monitor's folder, and making what its program needs, until a keeper has all of it.

Its keeper waits meanwhile. If the caller fails or ends, keeper or nursery undo everything.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import time
from collections.abc import Callable, Iterable

from generated_vmm.process.keeper import kernel, messages
from generated_vmm.process.keeper.folders import (
    enter,
    make_parents,
    open_private,
    require_private,
    require_trusted_path,
)
from generated_vmm.process.keeper.kernel import Descriptor, Refused
from generated_vmm.process.keeper.record import (
    INPUT,
    KEEPER,
    LOG,
    METRICS,
    OUTPUT,
    RECORD,
    UNRECORDED,
    Order,
    Record,
    Socket,
    write_record,
)
from generated_vmm.process.keeper.removal import open_fifo, remove_leftover
from generated_vmm.process.keeper.sockets import is_served

ROOT = "root"  # of a jail
MODE, MODE_OF_JAIL = 0o700, 0o711  # others may pass through, not read: who can read can lock it
ATTEMPT_SECONDS = 1.0  # for an answer
READABLE = stat.S_IRGRP | stat.S_IROTH
BOTH_ENDS = os.O_RDWR | os.O_NONBLOCK  # of a fifo: it always has a reader, its writer never waits
READING, WRITING = os.O_RDONLY | os.O_NONBLOCK, os.O_WRONLY | os.O_NONBLOCK


class Taken:
    """A folder that this process takes for a monitor. Each step raises `Refused` or OSError.

    `given` is for its keeper: the locked folder, the folder of the API's socket, the listener for
    later owners, and the fifos that the program has at its start. `ends` are the owner's ends of
    the fifos, and `root` is that of a jail.
    """

    def __init__(self) -> None:
        self.given: dict[str, Descriptor] = {}
        self.ends: dict[str, Descriptor] = {}
        self.root: Descriptor | None = None

    def close(self) -> None:
        """Closes what others have now, or nobody needs, with the locks."""
        for each in self.given.values():
            each.close()
        self.given, self.ends, self.root = {}, {}, None

    def take(self, order: Order, pause: Callable[[float], object]) -> None:
        """Makes the folder, or takes over one without a keeper, and makes what the program needs.

        `pause` waits some seconds for another keeper to end, and raises if nobody waits any more.
        """
        record, path = order.record, order.record.path
        if order.socket[0]:
            self._open_folder_of_socket(order)
        if record.jailed:
            _make_folders_above(path)
        while "folder" not in self.given:
            require_trusted_path(path)
            with kernel.About("directory", path):
                is_new = False
                with contextlib.suppress(FileExistsError):
                    os.mkdir(path, UNRECORDED)
                    is_new = True
                self._take_over(record, pause, is_new=is_new)
        folder = self.given["folder"].number
        self._listen(folder)
        if record.jailed:
            os.mkdir(ROOT, 0o755, dir_fd=folder)
        self._make_fifos(order, folder)

    def find(self, folder: int, *, is_jailed: bool) -> None:
        """Opens what the owner of a monitor has, in a folder with a keeper."""
        inside = self._inside(folder, is_jailed=is_jailed)
        places = {INPUT: folder, OUTPUT: folder, LOG: inside, METRICS: inside}
        for name, place in places.items():
            with contextlib.suppress(OSError):  # the user of a jail may have removed or replaced it
                self.ends[name] = open_fifo(name, place, WRITING if name == INPUT else READING)

    def _inside(self, folder: int, *, is_jailed: bool) -> int:
        """The folder whose files are the monitor's."""
        if is_jailed:
            self.root = Descriptor(os.open, ROOT, kernel.FOLDER, dir_fd=folder)
        return folder if self.root is None else self.root.number

    def _take_over(self, record: Record, pause: Callable[[float], object], *, is_new: bool) -> None:
        """Takes a folder without a keeper, unless it has just been removed."""
        path = record.path
        try:
            folder = self.given["opened"] = open_private(path)
        except FileNotFoundError:
            if os.path.islink(path):
                raise
            return
        mode = stat.S_IMODE(os.fstat(folder.number).st_mode)
        if mode & READABLE:
            raise Refused(f"{path} can be locked by others (mode {mode:o}): chmod go-r")
        if (seen := ask(folder.number, path, pause=pause)) is not None:
            if seen[0] == "detached":
                raise Refused(f"a detached monitor runs in {path}: attach to it")
            raise Refused(f"{path} is in use by process {seen[1]}")
        with contextlib.suppress(FileNotFoundError):
            if kernel.identity(os.path.realpath(path)) == kernel.identity(folder.number):
                if not is_new or os.listdir(folder.number):
                    is_new = _clear(folder.number, record)
                _enter(folder.number, record, made=is_new)
                self.given["folder"] = self.given.pop("opened")

    def _listen(self, folder: int) -> None:
        """Listens on a socket in the folder, for later owners and for questions."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(KEEPER, dir_fd=folder)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            os.fchmod(listener.fileno(), 0o600)  # of the file that it makes
            listener.bind(f"/proc/self/fd/{folder}/{KEEPER}")
            listener.listen()
            self.given["listener"] = Descriptor(os.dup, listener.fileno())

    def _open_folder_of_socket(self, order: Order) -> None:
        """Raises `Refused` if the path of the API's socket exists."""
        folder, name = order.socket
        path = f"{folder}/{name}"
        with kernel.About("socket_path", path):
            held = self.given["api"] = Descriptor(os.open, folder, os.O_PATH | os.O_DIRECTORY)
        inner = f"/proc/self/fd/{held.number}/{name}"
        if is_served(inner):
            raise Refused(f"{path} is in use: another process listens there")
        if os.path.lexists(inner):
            what = "exists although nothing listens there; remove it if it is not needed"
            raise Refused(f"{path} {what}")
        order.record.sockets.append(Socket(folder, kernel.identity(held.number), name))

    def _make_fifos(self, order: Order, folder: int) -> None:
        """Makes the fifos, and locks the program's input."""
        inside = self._inside(folder, is_jailed=order.record.jailed)
        places = {INPUT: folder, OUTPUT: folder, LOG: inside, METRICS: inside}
        for name, place in places.items():
            with kernel.About("the fifo", f"{order.record.path}/{name}", "cannot be created"):
                os.mkfifo(name, 0o600, dir_fd=place)
            if order.record.jailed and name in (LOG, METRICS):
                with open_fifo(name, place, READING) as fifo:
                    os.fchown(fifo.number, *order.user)
        self.given[INPUT] = open_fifo(INPUT, folder, os.O_RDWR)
        kernel.lock(self.given[INPUT].number)
        self.given[OUTPUT] = open_fifo(OUTPUT, folder, BOTH_ENDS)
        self.given[LOG] = open_fifo(LOG, inside, BOTH_ENDS)
        self.given.setdefault("api", Descriptor(os.dup, inside))
        self.find(folder, is_jailed=order.record.jailed)


def _make_folders_above(path: str) -> None:
    """The folders above that of a jail."""
    parent = os.path.dirname(path)
    with kernel.About("chroot_base_dir", os.path.dirname(parent)):
        make_parents(path)
    for folder in (os.path.dirname(parent), parent):
        require_private(folder, os.stat(folder))


def _clear(folder: int, record: Record) -> bool:
    """Removes what a monitor has left in a folder; whether a keeper has made the folder."""
    before = remove_leftover(folder, record.path, keeps_folder=True)
    if record.jailed and set(os.listdir(folder)) - {RECORD}:
        what = "exists: it is another jail, or something is mounted in it"
        raise Refused(f"{record.path} {what}")
    return before is not None and before.made


def _enter(folder: int, record: Record, *, made: bool) -> None:
    """Gives the folder, which is to be undone from now on, its record.

    It has a mode of its own before, by which it is known if caller and keeper are killed.
    """
    record.made = made
    enter(folder, record.path)
    write_record(folder, record)
    if made:
        os.fchmod(folder, MODE_OF_JAIL if record.jailed else MODE)


# Visits to the keeper of a folder


def ask(
    folder: int,
    path: str,
    *,
    seconds: float = kernel.LONGEST_END,
    pause: Callable[[float], object] = time.sleep,
) -> list[str] | None:
    """What a folder's keeper says: "owned" or "detached", its owner, its monitor's number and id.

    See `visit`.
    """
    found = visit(folder, path, "ask", seconds=seconds, pause=pause)
    if found is None:
        return None
    words, connection = found
    connection.close()
    return words


def visit(
    folder: int,
    path: str,
    word: str,
    given: Iterable[int] = (),
    *,
    seconds: float = kernel.LONGEST_END,
    pause: Callable[[float], object] = time.sleep,
) -> tuple[list[str], socket.socket] | None:
    """The answer of a folder's keeper, and the connection to it.

    None if the folder has no keeper, and is locked by this process now. Waits for a keeper that has
    just begun, or is about to end. Raises `Refused` if the folder is locked all the time, and
    nobody answers.
    """
    deadline = time.monotonic() + seconds
    while not kernel.lock(folder):
        left = deadline - time.monotonic()
        if word == "ask":  # who comes as the owner comes once
            left = min(left, ATTEMPT_SECONDS)
        with contextlib.suppress(OSError):
            if (answer := _answer(folder, word, given, left)) is not None:
                return answer
        if time.monotonic() > deadline:
            who = kernel.in_words(kernel.holders(folder))
            raise Refused(f"{path} is in use by {who}, which does not answer")
        pause(kernel.PAUSE)
    return None


def _answer(
    folder: int, word: str, given: Iterable[int], seconds: float
) -> tuple[list[str], socket.socket] | None:
    """None if the keeper is about to end. Raises OSError."""
    with contextlib.ExitStack() as stack:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        stack.enter_context(connection).settimeout(max(kernel.PAUSE, seconds))
        connection.connect(f"/proc/self/fd/{folder}/{KEEPER}")
        if messages.peer_of(connection)[1] != os.geteuid():
            return None
        messages.send(connection, word, given=given)
        if (received := messages.receive(connection)) is None:
            return None
        stack.pop_all()
        return received[0], connection
