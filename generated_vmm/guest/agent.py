"""The agent of a guest: runs programs, moves files and renews clones, for the host alone.

    agent.py [PORT]  listens on a vsock port, by default 1024, for the host
    agent.py PATH    listens on a unix socket of this host, where nothing is isolated, until its
                     standard input ends

One file for Python 3.9 or newer that imports only what Debian's python3-minimal has: no `json`,
`shutil`, `tarfile`, `resource`, `termios` or `ctypes`. openapi/guest.yaml describes the API.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import errno
import fcntl
import os
import pwd
import re
import select
import signal
import socket
import stat
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any, BinaryIO
from urllib.parse import parse_qsl, unquote, unquote_to_bytes

VERSION = 1
PORT = "1024"
INSTANCE = os.urandom(16).hex()  # of this process, which knows no programs of another one
HOST_CID = 2
TIOCSWINSZ = 0x5414
RNDADDENTROPY, RNDRESEEDCRNG = 0x40085203, 0x5207
ULIMITS = {"cpu_seconds": "t", "file_kib": "f", "memory_kib": "v", "open_files": "n"}

PART = 256 * 1024  # bytes read or written at once
LARGEST_BODY = 4 * 1024 * 1024
LONGEST_LINE, LONGEST_HEAD = 65536, 65536
LAST_CHUNK = b"0\r\n\r\n"
LONGEST_WAIT = 30.0  # seconds that a request waits for news
LONGEST_SILENCE = 60.0  # seconds without a byte of a request that has begun
REPLAY = 1024 * 1024  # bytes of output that can be read again
MOST_FRAMES = 4096  # pieces of output, for a program that writes single bytes
ARGUMENTS, ARGUMENT = 10, 100  # that a host is told, and the characters of each
ENDED_BYTES, ENDED_PROGRAMS = 16 * 1024 * 1024, 256  # of ended programs; the oldest go first
GROUP_HAS_ENDED = errno.ENOENT, errno.ENOTDIR, errno.ENODEV  # the last: after it was opened
LAST_TO_END = "-900"  # see oom_score_adj in proc(5)
HELD_SECONDS = 60.0  # that a guest stands still at most; while its machine is paused none pass


class Refused(Exception):
    """A request that is not carried out, with a stable code."""

    def __init__(self, status: int, code: str, reason: str) -> None:
        super().__init__(reason)
        self.status, self.code = status, code


def fault_of(error: Exception) -> tuple[int, dict[str, object]]:
    """Status and body of the response to a request that failed."""
    status, code, number, text = 400, "malformed", None, f"{type(error).__name__}: {error}"
    if isinstance(error, Refused):
        status, code, text = error.status, error.code, str(error)
    elif isinstance(error, OSError):
        status, code, number = 422, "failed", error.errno
        text = f"{error.strerror}: {os.fsdecode(error.filename or '')}".rstrip(": ")
    return status, {"fault_message": text, "code": code, "errno": number}


# JSON

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|\b(?:true|false|null)\b')
WORDS = {"true": "True", "false": "False", "null": "None"}
ESCAPED = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))")
LETTERS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
TO_ESCAPE = re.compile(r'["\\\x00-\x1f]')


def read_json(content: bytes) -> Any:
    """The value of a JSON text, read as a literal of Python. Raises ValueError."""
    try:
        return ast.literal_eval(TOKEN.sub(literal, content.decode()).strip())
    except (SyntaxError, MemoryError, RecursionError) as error:
        raise ValueError("not JSON") from error


def literal(token: re.Match[str]) -> str:
    """The Python literal of a string or a word of JSON."""
    if word := WORDS.get(token[0]):
        return word
    text = ESCAPED.sub(
        lambda found: chr(int(found[1], 16)) if found[1] else LETTERS.get(found[2], found[2]),
        token[0][1:-1],
    )  # in which a character beyond \uffff is two
    return repr(text.encode("utf-16", "surrogatepass").decode("utf-16"))


def to_json(value: object) -> str:
    """JSON of an answer: objects, lists, text, whole numbers, true, false and null."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{to_json(key)}:{to_json(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(to_json, value)) + "]"
    if isinstance(value, str):
        text = value.encode(errors="replace").decode()
        return '"' + TO_ESCAPE.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + '"'
    return "null" if value is None else str(value).lower()


# Control groups


def own_group() -> str:
    """The folder of this process in cgroup 2, empty without one."""
    with contextlib.suppress(OSError, StopIteration):
        with open("/proc/mounts") as mounts, open("/proc/self/cgroup") as groups:
            mount = next(line.split()[1] for line in mounts if line.split()[2] == "cgroup2")
            own = next(line[3:].strip("/\n") for line in groups if line.startswith("0::"))
        return os.path.join(mount, own).rstrip("/")
    return ""


def put(path: str, text: str) -> None:
    """Writes to a file of the kernel, which is there."""
    with open(path, "r+") as file:
        file.write(text)


def prefer_to_end(score: str) -> None:
    """Whether the kernel ends this process early (1000) or late (-1000) when memory is short."""
    if ISOLATED:
        with contextlib.suppress(OSError):
            put("/proc/self/oom_score_adj", score)


def freeze(group: str, wanted: bool) -> None:
    """Freezes the processes of a control group and waits until they stand still, or thaws them."""
    try:
        if wanted and group == own_group():
            raise OSError(errno.EBUSY, "the agent cannot leave its control group", group)
        put(f"{group}/cgroup.freeze", "1" if wanted else "0")
        deadline = time.monotonic() + 5
        while wanted and not is_frozen(group):
            if time.monotonic() > deadline:
                raise OSError(errno.EBUSY, "a process does not stand still", group)
            time.sleep(0.001)
    except OSError as error:
        if error.errno not in GROUP_HAS_ENDED:
            raise


def is_frozen(group: str) -> bool:
    """Whether all processes of a control group stand still."""
    with open(f"{group}/cgroup.events") as events:
        return "frozen 1" in events.read()


def groups_beside(own: str) -> list[str]:
    """The control groups of everything else in this guest, except that of process 1."""
    found, folder = [], own
    while os.path.exists(os.path.join(parent := os.path.dirname(folder), "cgroup.procs")):
        beside = (each.path for each in os.scandir(parent) if each.is_dir())
        found += [path for path in beside if path != folder and not path.endswith("/init.scope")]
        folder = parent
    return found


class Group:
    """The control group of one program; without a path, it has no processes."""

    def __init__(self, path: str = "") -> None:
        self.path = path

    def others(self) -> list[int]:
        """Its living processes except the agent."""
        with contextlib.suppress(OSError), open(f"{self.path}/cgroup.procs") as procs:
            return [pid for pid in map(int, procs) if pid != os.getpid()]
        return []

    def kill(self) -> None:
        """Ends its processes, and removes it unless the next program begins in it."""
        if not self._kill_until(time.monotonic() + 0.02):  # they fork as fast as they are killed
            GROUPS.leave(self)
            with contextlib.suppress(OSError):  # nothing can fork then; SIGKILL ends frozen ones
                freeze(self.path, True)
            self._kill_until(time.monotonic() + 5)

    def _kill_until(self, deadline: float) -> bool:
        while time.monotonic() < deadline:
            with GROUPS.lock:  # else the next program may begin in it
                found = self.others()
                if not found and (self is GROUPS.current or self.remove()):
                    return True
                for pid in found:  # none if the last one is not quite gone
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            time.sleep(0.0002)
        return False

    def remove(self) -> bool:
        """Removes it, unless it has processes."""
        try:
            os.rmdir(self.path)
        except OSError as error:
            return error.errno != errno.EBUSY
        return True


class Groups:
    """Starts processes in control groups: the agent is in the one in which the next begins.

    A process that joins a group waits for the RCU of the kernel, often 10 ms; one that is born in
    it does not. So the agent moves, when somebody else is in its group, or the group is frozen.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.home, self.current = own_group(), Group()
        self.left: list[Group] = []  # those that had processes when the agent moved

    def start(self, args: list[Any], **options: Any) -> tuple[subprocess.Popen[bytes], Group]:
        """Starts a process in a group of its own."""
        with self.lock:
            if not self.current.path or self.current.others():
                self.move()
            self.current.path, self.current = "", Group(self.current.path)  # its program has ended
            prefer_to_end("0")  # which a process takes over from its parent
            try:
                return subprocess.Popen(args, 0, **options), self.current
            finally:
                prefer_to_end(LAST_TO_END)

    def move(self) -> None:
        """Moves the agent, with all its threads, to a new group."""
        self.left = [group for group in (*self.left, self.current) if not group.remove()]
        path, self.current = f"{self.home}/guest-{os.urandom(8).hex()}", Group()
        if self.home:
            with contextlib.suppress(OSError):  # no right to it
                os.mkdir(path)
                put(f"{path}/cgroup.procs", "0")
                self.current = Group(path)

    def leave(self, group: Group) -> None:
        """Moves the agent elsewhere if it is in this group."""
        with self.lock:
            if group is self.current:
                self.move()

    def close(self) -> None:
        """Leaves no group behind, and no process in any."""
        with self.lock, contextlib.suppress(OSError):
            put(f"{self.home}/cgroup.procs", "0")
            self.left, self.current = [*self.left, self.current], Group()
            for group in self.left:
                group.kill()


# Programs


def ready(ends: Iterable[int], seconds: float | None, event: int = select.POLLIN) -> list[int]:
    """Those that can be read from, or written to, in time."""
    poll = select.poll()
    for end in ends:
        poll.register(end, event)
    return [end for end, _ in poll.poll(None if seconds is None else max(0.0, seconds * 1000))]


def resize(terminal: int, size: dict[str, int]) -> None:
    """Sets the size of a terminal, which signals its program."""
    fcntl.ioctl(terminal, TIOCSWINSZ, struct.pack("HHHH", size["rows"], size["columns"], 0, 0))


def account(name: str) -> pwd.struct_passwd:
    """The user of a name or a number. Raises `Refused`."""
    try:
        return pwd.getpwuid(int(name)) if name.isdecimal() else pwd.getpwnam(name)
    except KeyError:
        raise Refused(422, "no_such_user", f"{name}: no such user") from None


class Program:
    """A program, the last bytes of its output, and every process that it leaves behind.

    A thread reads the output. It stops reading, so that the program waits, while the output that no
    host has acknowledged fills the replay; a program that drops output never waits.
    """

    def __init__(self, name: str, spec: dict[str, Any]) -> None:
        self.name, self.spec, self.terminal = name, spec, spec.get("terminal")
        self.replay, self.drops = spec.get("replay_bytes", REPLAY), spec.get("drop_output", False)
        self.condition, self.input_lock = threading.Condition(), threading.Lock()
        self.frames: list[tuple[int, str, bytes]] = []  # each with its position
        self.end = self.acknowledged = self.input_size = 0
        self.returncode: int | None = None
        self.timed_out = self.is_in_line = False
        self.ends: set[int] = set()  # our descriptors
        with contextlib.ExitStack() as undo:
            undo.callback(self._close)
            theirs = self._open_ends()
            self.child, self.group = self._start(theirs)
            undo.callback(self.child.wait)
            undo.callback(self.kill)
            self.exited = os.pidfd_open(self.child.pid)
            self.ends.add(self.exited)
            for end in set(theirs):
                self._shut(end)
            threading.Thread(target=self._run, daemon=True).start()
            undo.pop_all()

    def _open_ends(self) -> list[int]:
        """Opens our ends of input and output, and returns those of the program."""
        self.input: int | None = None
        self.awake, self.waking = self._open(os.pipe)
        os.set_blocking(self.waking, False)
        if self.terminal:
            self.outer, inner = self._open(os.openpty)
            resize(self.outer, self.terminal)
            self.input, self.outlets, theirs = self.outer, {self.outer: "stdout"}, [inner] * 3
        else:
            (inlet, self.input), (out, stdout), (err, stderr) = (self._open(os.pipe) for _ in "012")
            self.outlets, theirs = {out: "stdout", err: "stderr"}, [inlet, stdout, stderr]
        os.set_blocking(self.input, False)
        if not self.terminal and not self.spec.get("stdin"):
            self._close_input()
        return theirs

    def _open(self, make: Callable[[], tuple[int, int]]) -> tuple[int, int]:
        made = make()
        self.ends.update(made)
        return made

    def _shut(self, end: int) -> None:
        self.ends.remove(end)
        os.close(end)

    def _start(self, ends: list[int]) -> tuple[subprocess.Popen[bytes], Group]:
        """Starts the program; a shell becomes it if it has limits or a terminal."""
        args, environment = self.spec["args"], dict(os.environ)
        as_user: dict[str, Any] = {}
        if self.spec.get("user"):
            user = account(self.spec["user"])
            environment |= {"HOME": user.pw_dir, "USER": user.pw_name, "LOGNAME": user.pw_name}
            groups = os.getgrouplist(user.pw_name, user.pw_gid)
            as_user = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": groups}
            if self.terminal:
                os.fchown(ends[0], user.pw_uid, -1)
        steps = [f"exec <>{os.ttyname(ends[0])} >&0 2>&1"] if self.terminal else []
        for name, limit in (self.spec.get("limits") or {}).items():
            steps.append(f"ulimit -{ULIMITS[name]} {limit:d}")
        if steps:
            args = ["/bin/sh", "-c", " && ".join([*steps, 'exec "$@"']), "sh", *args]
        return GROUPS.start(
            args, stdin=ends[0], stdout=ends[1], stderr=ends[2], cwd=self.spec.get("cwd"),
            env=environment | (self.spec.get("env") or {}), start_new_session=True, **as_user,
        )  # fmt: skip

    def _run(self) -> None:
        limit = self.spec.get("timeout_ms")
        deadline = time.monotonic() + limit / 1000 if limit else None
        while not self._step(deadline):
            pass
        for _ in range(32):  # what is there now: others may write for ever
            if not (found := ready(self.outlets, 0)):
                break
            for outlet in found:
                self._append(*self._read(outlet))
        with self.condition:
            self.returncode = self.child.wait()
            self.condition.notify_all()
        while self.outlets:  # processes that it left behind must not wait
            for outlet in ready(self.outlets, None):
                self._read(outlet)
        self._close()

    def _step(self, deadline: float | None) -> bool:
        """Waits for news and handles them; true once the program has ended."""
        left = None if deadline is None or self.timed_out else deadline - time.monotonic()
        outlets = self.outlets if self._has_room() else ()
        found = ready((self.exited, self.awake, *outlets), left)
        if self.exited in found:
            return True
        if left is not None and left <= 0:
            self.timed_out = True
            with contextlib.suppress(PermissionError):  # of another user: it ends by itself
                self.kill()
        for end in found:
            if end == self.awake:
                os.read(end, 4096)
            else:
                self._append(*self._read(end))
        return False

    def _read(self, outlet: int) -> tuple[str, bytes]:
        """The next bytes of an outlet, with their stream; at its end, it is an outlet no more."""
        stream, data = self.outlets[outlet], b""
        with contextlib.suppress(OSError):  # EIO: a terminal without programs
            data = os.read(outlet, 65536)
        if not data:
            del self.outlets[outlet]
        return stream, data

    def _append(self, stream: str, data: bytes) -> None:
        with self.condition:
            if data:
                self.frames.append((self.end, stream, data))
            self.end += len(data)
            self._trim()
            self.condition.notify_all()

    def _trim(self) -> None:
        """Drops the oldest output beyond the replay, if it is acknowledged or may be lost."""
        while len(self.frames) > 1:
            after = self.frames[1][0]
            is_over = self.end - after >= self.replay or len(self.frames) > MOST_FRAMES
            if not is_over or not (self.drops or after <= self.acknowledged):
                return
            del self.frames[0]

    def _has_room(self) -> bool:
        with self.condition:
            unread = self.end - self.acknowledged
            return self.drops or (unread < self.replay and len(self.frames) <= MOST_FRAMES)

    # For hosts, from any thread.

    def view(self) -> dict[str, object]:
        """The state of the program."""
        return {
            "id": self.name, "pid": self.child.pid,
            "args": [word[:ARGUMENT] for word in self.spec["args"][:ARGUMENTS]],
            "returncode": self.returncode, "timed_out": self.timed_out,
            "output_bytes": self.end, "input_bytes": self.input_size,
        }  # fmt: skip

    def wait(self, seconds: float) -> dict[str, object]:
        """The state at the end, or when the time is up."""
        with self.condition:
            self.condition.wait_for(lambda: self.returncode is not None, seconds)
        return self.view()

    def output(self, offset: int, seconds: float) -> dict[str, object]:
        """The output from a position on, at most `PART` bytes; all before it is acknowledged."""
        with self.condition:
            if not 0 <= offset <= self.end:
                raise Refused(409, "no_such_offset", f"the output has {self.end} bytes")
            self.acknowledged = max(self.acknowledged, offset)
            self._trim()
            with contextlib.suppress(OSError):  # the thread is awake already, or has ended
                os.write(self.waking, b"x")
            self.condition.wait_for(
                lambda: self.end > offset or self.returncode is not None, seconds
            )
            at = begin = max(offset, self.frames[0][0] if self.frames else 0)
            found: list[object] = []
            for position, stream, data in self.frames:
                if part := data[at - position :][: begin + PART - at]:
                    found.append({"stream": stream, "data": base64.b64encode(part).decode()})
                    at += len(part)
            lost = begin - offset
            return {"frames": found, "lost_bytes": lost, "next_offset": at, "program": self.view()}

    def write(self, offset: int, data: bytes, seconds: float, close: bool) -> dict[str, object]:
        """Writes what the program takes in time; bytes that it has are not written again."""
        deadline = time.monotonic() + seconds
        while True:
            with self.input_lock:
                end = self._write_once(offset, data, close)
            if end is None or not ready([end], deadline - time.monotonic(), select.POLLOUT):
                return {"input_bytes": self.input_size, "is_open": self.input is not None}

    def _write_once(self, offset: int, data: bytes, close: bool) -> int | None:
        """Writes what fits now; returns the end that has no room for the rest."""
        if not 0 <= offset <= self.input_size:
            raise Refused(409, "no_such_offset", f"the input has {self.input_size} bytes")
        if self.input is None:
            return None
        try:
            if rest := data[self.input_size - offset :]:
                size = os.write(self.input, rest)
                self.input_size, self.is_in_line = self.input_size + size, rest[size - 1] != 10
                if size < len(rest):
                    return self.input
            if close and self.terminal:  # once more ends a line that has begun
                os.write(self.input, b"\x04" * (1 + self.is_in_line))
            if close:
                self._close_input()
        except BlockingIOError:
            return self.input
        except OSError:  # the program reads no more
            self._close_input()
        return None

    def resize(self, size: dict[str, int]) -> None:
        """Sets the size of the terminal; nothing happens after the end."""
        with self.input_lock:
            if not self.terminal:
                raise Refused(409, "no_terminal", f"{self.name} has no terminal")
            if self.ends:
                resize(self.outer, size)

    def signal(self, number: int) -> dict[str, object]:
        """Signals the process group; SIGKILL ends every process that the program has started."""
        with self.condition:
            if self.returncode is None:  # else another group may have its number
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self.child.pid, number)
        if number == signal.SIGKILL:
            self.group.kill()
        return self.view()

    def hold(self, wanted: bool) -> None:
        """Makes every process of the program stand still, or run again."""
        if self.group.path:
            freeze(self.group.path, wanted)
        else:
            self.signal(signal.SIGSTOP if wanted else signal.SIGCONT)

    def kill(self) -> None:
        """Ends every process of the program, those in other sessions included."""
        self.signal(signal.SIGKILL)

    def _close_input(self) -> None:
        if self.input is not None and not self.terminal:  # whose output has the same descriptor
            self._shut(self.input)
        self.input = None

    def _close(self) -> None:
        with self.condition, self.input_lock:
            for end in self.ends:
                os.close(end)
            self.ends, self.input, self.waking = set(), None, -1


class Programs:
    """The programs of this agent, each under the id that its host chose.

    While they are held, everything but the agent stands still, and nothing starts. So a clone of
    this guest does nothing before its identity is renewed.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.known: dict[str, Program] = {}
        self.held_until: float | None = None

    def hold(self) -> None:
        """Makes everything stand still, until `release` or for some time."""
        with self.lock:
            self._extend()
            GROUPS.leave(GROUPS.current)
            try:
                self._freeze(True)
            except BaseException:
                self._release()
                raise

    def release(self) -> None:
        """Lets everything run again."""
        with self.lock:
            self._release()

    @contextlib.contextmanager
    def releasing(self) -> Iterator[None]:
        """A block before a release. Raises `Refused` if something has run since the hold."""
        with self.lock:
            if self.held_until is None:
                raise Refused(409, "not_held", "the programs are not held any more")
            self._extend()
            yield
            self._release()

    def _extend(self) -> None:
        self.held_until = time.monotonic() + HELD_SECONDS
        timer = threading.Timer(HELD_SECONDS, self.expire)
        timer.daemon = True
        timer.start()

    def expire(self) -> None:
        """Lets everything run again, unless the guest has been held anew."""
        with self.lock:
            if self.held_until is not None and self.held_until <= time.monotonic():
                self._release()

    def _release(self) -> None:
        self._freeze(False)
        self.held_until = None

    def _freeze(self, wanted: bool) -> None:
        for program in list(self.known.values()):
            program.hold(wanted)
        for group in groups_beside(GROUPS.current.path) if ISOLATED else ():
            freeze(group, wanted)

    def start(self, name: str, spec: dict[str, Any]) -> Program:
        """Starts the program once, however often it is asked to."""
        with self.lock:
            if program := self.known.get(name):
                if program.spec != spec:
                    raise Refused(409, "id_taken", f"{name} is the id of another program")
                return program
            if self.held_until is not None:
                raise Refused(503, "held", "nothing starts before the programs are released")
            if spec.get("agent", INSTANCE) != INSTANCE:
                text = f"the agent was restarted; {name} may have run before"
                raise Refused(409, "other_agent", text)
            self._make_room()
            return self.known.setdefault(name, Program(name, spec))

    def _make_room(self) -> None:
        ended = [one for one in self.known.values() if one.returncode is not None]
        sizes = [one.end - one.frames[0][0] if one.frames else 0 for one in ended]
        while len(ended) > ENDED_PROGRAMS or sum(sizes) > ENDED_BYTES:
            sizes.pop(0)
            del self.known[ended.pop(0).name]

    def get(self, name: str) -> Program:
        """The program. Raises `Refused`."""
        if program := self.known.get(name):
            return program
        raise Refused(404, "no_such_program", f"{name}: no such program")

    def remove(self, name: str) -> None:
        """Ends the program and forgets it."""
        program = self.get(name)
        program.kill()
        program.wait(5)
        with self.lock:
            if self.known.get(name) is program:
                del self.known[name]


# Files


def beside(target: bytes) -> bytes:
    """A new name in the folder of another one."""
    return os.path.join(os.path.dirname(target), b".guest-" + os.urandom(8).hex().encode())


@contextlib.contextmanager
def replacing(path: bytes, mode: str = "", owner: str = "") -> Iterator[BinaryIO]:
    """A file that takes the place of another one when it is whole, by default with its owner."""
    target = os.path.realpath(path)
    temporary = beside(target)
    before = os.stat(target) if os.path.exists(target) else None
    if before and not stat.S_ISREG(before.st_mode):
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
    try:
        with open(temporary, "xb", opener=opened) as file:
            yield file
            file.flush()
            ids = (before.st_uid, before.st_gid) if before else (-1, -1)
            os.fchown(file.fileno(), *(owner_of(owner) if owner else ids))
            default = stat.S_IMODE(before.st_mode) if before else 0o644
            os.fchmod(file.fileno(), int(mode, 8) if mode else default)  # fchown clears bits
        os.replace(temporary, target)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


def opened(path: str, flags: int) -> int:
    """An opener that does not wait for a pipe, and makes files that nobody else can read."""
    return os.open(path, flags | os.O_NONBLOCK, 0o600)


def owner_of(owner: str) -> tuple[int, int]:
    """The numbers in `uid:gid`, or those of a user and its own group."""
    if found := re.fullmatch(r"(\d+):(\d+)", owner):
        return int(found[1]), int(found[2])
    user = account(owner)
    return user.pw_uid, user.pw_gid


@contextlib.contextmanager
def tool(*args: str | bytes, stdin: int = subprocess.DEVNULL) -> Iterator[subprocess.Popen[bytes]]:
    """A program of the guest's system; raises OSError with what it said if it fails."""
    with open(os.memfd_create("said"), "rb") as said:
        child, _ = GROUPS.start(
            [*args], stdin=stdin, stdout=subprocess.PIPE, stderr=said,
            env={**os.environ, "LC_ALL": "C"},
        )  # fmt: skip
        with child:
            try:
                yield child
            except BrokenPipeError:  # it has failed, and says why
                pass
            except BaseException:
                child.kill()
                raise
        if child.returncode:
            text = os.pread(said.fileno(), 500, 0).decode(errors="replace")
            known = (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS, errno.EPERM)
            number = next((one for one in known if os.strerror(one) in text), errno.EIO)
            raise OSError(number, f"{os.strerror(number)} ({args[0]!s}: {' '.join(text.split())})")


# The machine


def write_text(path: bytes, text: str) -> None:
    """Replaces a file of the system."""
    with replacing(path) as file:
        file.write(text.encode())


def reseed(seed: str) -> None:
    """Gives the kernel a secret that no other clone has, and lets its generator use it at once."""
    data = base64.b64decode(seed)
    with open("/dev/random", "wb", 0) as device:
        fcntl.ioctl(device, RNDADDENTROPY, struct.pack("ii", len(data) * 8, len(data)) + data)
        fcntl.ioctl(device, RNDRESEEDCRNG)


def set_hostname(name: str) -> None:
    """The name of the machine, now and after a reboot."""
    socket.sethostname(name)
    write_text(b"/etc/hostname", f"{name}\n")


def renew_host_keys(folder: str = "/etc/ssh") -> None:
    """New keys of the SSH server, if there is one."""
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        if re.fullmatch(r"ssh_host_\w+_key(\.pub)?", name):
            os.unlink(os.path.join(folder, name))
    # A server that is held cannot end before it runs again: nobody waits for its restart.
    for command in ("ssh-keygen -A", "systemctl --no-block try-restart ssh.service sshd.service"):
        with contextlib.suppress(OSError), tool(*command.split()):  # if the guest has it
            pass


RENEWALS: dict[str, Callable[[Any], object]] = {  # the seed first: later steps need randomness
    "seed": reseed,
    "unix_ns": lambda nanoseconds: time.clock_settime_ns(time.CLOCK_REALTIME, nanoseconds),
    "machine_id": lambda name: write_text(b"/etc/machine-id", f"{name}\n"),
    "hostname": set_hostname,
    "host_keys": lambda wanted: renew_host_keys() if wanted else None,
}

# Requests

SPEC = (
    "args", "env", "cwd", "user", "limits", "terminal", "stdin", "timeout_ms", "replay_bytes",
    "drop_output", "agent",
)  # fmt: skip


def require_known(members: Iterable[str], known: Iterable[str]) -> None:
    """Raises `Refused` with the names that only a newer version knows."""
    if unknown := sorted(set(members) - set(known)):
        raise Refused(501, "unknown", f"version {VERSION} does not know {', '.join(unknown)}")


class Link(threading.Thread):
    """One connection of a host, and its requests one after the other."""

    def __init__(self, link: socket.socket) -> None:
        super().__init__(daemon=True)
        self.link = link
        self.parts: Iterator[bytes] = iter(())
        self.query: dict[str, str] = {}
        self.goes_on, self.has_replied = True, False

    def run(self) -> None:
        """Answers requests until the host goes away."""
        ended = contextlib.suppress(OSError, ValueError)
        with ended, self.link, self.link.makefile("rb") as self.file:
            while self.goes_on:
                self._answer_one()

    def _answer_one(self) -> None:
        self.link.settimeout(None)
        method, target, _ = self.file.readline(LONGEST_LINE).decode("ascii").split(" ", 2)
        self.link.settimeout(LONGEST_SILENCE)
        head = b""
        while not (b"\r\n" + head).endswith(b"\r\n\r\n"):
            line = self.file.readline(LONGEST_HEAD)
            if not line or len(head := head + line) > LONGEST_HEAD:
                raise ValueError("no end of the head")
        length = re.search(rb"(?i)\ncontent-length: *(\d+)", b"\n" + head)
        self.parts = self._parts(int(length[1]) if length else 0)
        path, _, query = target.partition("?")
        self.query, self.has_replied = dict(parse_qsl(query)), False
        try:
            value = self._answer(method, path)
            if isinstance(value, bytes):
                self.link.sendall(value)
            elif not self.has_replied:
                self._reply(200, {} if value is None else value)
        except Exception as error:
            if self.has_replied:
                raise  # the host sees that the response is cut off
            self._reply(*fault_of(error))
        for _ in self.parts:  # of a body that was refused
            pass

    def _answer(self, method: str, path: str) -> object:
        for known, pattern, handler in ROUTES:
            if method == known and (found := re.fullmatch(pattern, path)):
                return handler(self, *map(unquote, found.groups()))
        raise Refused(501, "unknown", f"version {VERSION} does not know {method} {path}")

    def _parts(self, size: int) -> Iterator[bytes]:
        """The body of a request in parts. Raises ConnectionResetError if it is cut off."""
        while size > 0:
            if not (data := self.file.read(min(PART, size))):
                raise ConnectionResetError(errno.ECONNRESET, "the request is cut off")
            size -= len(data)
            yield data

    def body(self, *known: str) -> dict[str, Any]:
        """The JSON body. A member that is not known is of a newer version: it is named."""
        content = bytearray()
        for part in self.parts:
            content += part
            if len(content) > LARGEST_BODY:
                raise Refused(413, "too_large", f"the body is over {LARGEST_BODY} bytes")
        if not isinstance(body := read_json(bytes(content)), dict):
            raise ValueError("the body is no object")
        require_known(body, known)
        return {name: value for name, value in body.items() if value is not None}

    def seconds(self) -> float:
        """How long the host waits for news."""
        return min(int(self.query.get("wait_ms", "0")) / 1000, LONGEST_WAIT)

    def _begin(self, status: int, *headers: str, body: bytes = b"") -> None:
        """Replies with a head, and the first bytes of the body."""
        self.has_replied = True
        head = (f"HTTP/1.1 {status} -", f"Agent-Version: {VERSION}", *headers, "\r\n")
        self.link.sendall("\r\n".join(head).encode() + body)

    def _reply(self, status: int, value: object) -> None:
        body, kind = to_json(value).encode(), "Content-Type: application/json"
        self._begin(status, kind, f"Content-Length: {len(body)}", body=body)

    def _stream(self, data: bytes, file: IO[bytes]) -> None:
        """Replies with these bytes and the rest of a file, whose size is not known."""
        self._begin(200, "Transfer-Encoding: chunked")
        while data:
            self.link.sendall(b"%x\r\n%b\r\n" % (len(data), data))
            data = file.read(PART)

    # Operations that need more than a line.

    def start_program(self, name: str) -> object:
        """Starts a program, once."""
        spec = self.body(*SPEC)
        require_known(spec.get("limits") or {}, ULIMITS)
        return PROGRAMS.start(name, spec).output(0, self.seconds())

    def write_input(self, name: str) -> object:
        """Input for a program."""
        body = self.body("offset", "data", "close")
        data, close = base64.b64decode(body["data"]), body.get("close", False)
        return PROGRAMS.get(name).write(body["offset"], data, self.seconds(), close)

    def stat_file(self, path: str) -> object:
        """What a path leads to."""
        found = os.stat(unquote_to_bytes(path))
        kinds = {stat.S_IFREG: "file", stat.S_IFDIR: "folder"}
        return {
            "kind": kinds.get(stat.S_IFMT(found.st_mode), "other"), "size": found.st_size,
            "mode": stat.S_IMODE(found.st_mode), "uid": found.st_uid, "gid": found.st_gid,
            "modified_ns": found.st_mtime_ns,
        }  # fmt: skip

    def read_file(self, path: str) -> object:
        """The content of a file."""
        with open(unquote_to_bytes(path), "rb", opener=opened) as file:
            data, size = file.read(PART) or b"", os.fstat(file.fileno()).st_size
            if len(data) < PART:  # all of it; files in /proc and /sys have no size or a wrong one
                self._begin(200, f"Content-Length: {len(data)}", body=data)
            elif size <= PART:
                self._stream(data, file)
                return LAST_CHUNK
            else:
                self._begin(200, f"Content-Length: {size}", body=data)
                if self.link.sendfile(file, PART, size - PART) != size - PART:
                    raise ConnectionResetError(errno.ECONNRESET, "the file was cut off")
        return None

    def write_file(self, path: str) -> None:
        """Replaces a file as a whole."""
        with replacing(unquote_to_bytes(path), **self.query) as file:
            for part in self.parts:
                file.write(part)

    def read_folder(self, path: str) -> object:
        """A folder as a tar stream, which is cut off if tar fails."""
        folder = unquote_to_bytes(path)
        os.listdir(folder)  # raises what is wrong with it, before the response begins
        with tool("tar", "-C", folder, "-cf", "-", ".") as child:
            assert child.stdout
            self._stream(child.stdout.read(PART), child.stdout)
        return LAST_CHUNK

    def write_folder(self, path: str) -> None:
        """Unpacks a tar stream: into a folder that is there, else as a whole or not at all."""
        target = os.path.realpath(unquote_to_bytes(path))
        if os.path.lexists(target):
            return self._unpack(target)
        around = beside(target)
        os.mkdir(around, 0o700)  # nobody else reads the new one before it is whole
        try:
            os.mkdir(new := os.path.join(around, b"new"), 0o755)
            self._unpack(new)
            os.rename(new, target)
        finally:
            with tool("rm", "-rf", "--", around):
                pass

    def _unpack(self, folder: bytes) -> None:
        with tool("tar", "-C", folder, "-xpof", "-", stdin=subprocess.PIPE) as child:
            for part in self.parts:
                child.stdin.write(part)  # type: ignore[union-attr]  # a pipe

    def connect_port(self, number: str) -> None:
        """Joins this connection to a port of the guest's own address."""
        try:
            port = socket.create_connection(("127.0.0.1", int(number)))
        except ConnectionRefusedError:
            port = socket.create_connection(("::1", int(number)))
        self.link.settimeout(None)
        self.goes_on = False
        self._begin(200)
        with port:
            ends = port, self.link, socket.SHUT_RDWR  # vsock devices do not pass on half an end
            back = threading.Thread(target=relay, args=ends, daemon=True)
            back.start()
            relay(self.link, port, socket.SHUT_WR)
            back.join()

    def renew(self) -> object:
        """Replaces what a clone must not share with another one, or the time of day alone.

        Programs that are held run again afterwards, if that is wanted, and not after a failure.
        """
        body = self.body(*RENEWALS, "release")
        if not ISOLATED:
            raise Refused(403, "no_machine", "this agent is a process of a host, not of a machine")
        done = [name for name in RENEWALS if name in body]
        with PROGRAMS.releasing() if body.get("release") else contextlib.nullcontext():
            for name in done:
                RENEWALS[name](body[name])
        return {"renewed": done}


def relay(source: socket.socket, target: socket.socket, end: int = socket.SHUT_WR) -> None:
    """Moves bytes in one direction until their end, which ends the target in this way."""
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(end)


GROUPS = Groups()
PROGRAMS = Programs()
ISOLATED = False  # before `main` knows where it listens, and wherever this is only imported
NAME, PATH = "/programs/([^/]+)", "/([^/]+)"
ROUTES: tuple[tuple[str, str, Callable[..., object]], ...] = (
    ("GET", "/agent", lambda _: {"version": VERSION, "instance": INSTANCE, "isolated": ISOLATED}),
    ("GET", "/programs", lambda _: [each.view() for each in list(PROGRAMS.known.values())]),
    ("GET", NAME, lambda link, name: PROGRAMS.get(name).wait(link.seconds())),
    ("PUT", NAME, Link.start_program),
    ("DELETE", NAME, lambda _, name: PROGRAMS.remove(name)),
    (
        "GET",
        f"{NAME}/output",
        lambda link, name: PROGRAMS.get(name).output(int(link.query["offset"]), link.seconds()),
    ),
    ("PUT", f"{NAME}/input", Link.write_input),
    (
        "PUT",
        f"{NAME}/signal",
        lambda link, name: PROGRAMS.get(name).signal(link.body("signal")["signal"]),
    ),
    (
        "PUT",
        f"{NAME}/terminal",
        lambda link, name: PROGRAMS.get(name).resize(link.body("rows", "columns")),
    ),
    ("GET", f"/stat{PATH}", Link.stat_file),
    ("GET", f"/files{PATH}", Link.read_file),
    ("PUT", f"/files{PATH}", Link.write_file),
    ("GET", f"/folders{PATH}", Link.read_folder),
    ("PUT", f"/folders{PATH}", Link.write_folder),
    ("GET", r"/ports/(\d+)", Link.connect_port),
    ("PUT", "/identity", Link.renew),
    ("PUT", "/hold", lambda _: PROGRAMS.hold()),
    ("DELETE", "/hold", lambda _: PROGRAMS.release()),
)


def listener_for(where: str) -> socket.socket:
    """A socket on a vsock port, or on a path of the host's file system for this user alone."""
    if where.isdecimal():
        listener = socket.socket(socket.AF_VSOCK)
        listener.bind((socket.VMADDR_CID_ANY, int(where)))
    else:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(where)
        os.chmod(where, 0o600)  # nobody can connect before `listen`
    listener.listen(128)
    return listener


def serve(listener: socket.socket, ends: Iterable[int]) -> None:
    """Answers hosts until there is something to read from one of the ends."""
    while ready((listener.fileno(), *ends), None) == [listener.fileno()]:
        try:
            link, address = listener.accept()
        except OSError:  # no descriptor is left for it
            time.sleep(0.1)
            continue
        if ISOLATED and address[0] != HOST_CID:  # a program in the guest
            link.close()
            continue
        try:
            Link(link).start()
        except RuntimeError:  # no thread is left for it
            link.close()


def main(where: str) -> None:
    """Serves until a signal, or the end of its input, and ends every program then."""
    global ISOLATED
    stopped, stopping = os.pipe()
    os.set_blocking(stopping, False)
    signal.set_wakeup_fd(stopping)  # whichever thread gets the signal
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    listener = listener_for(where)
    ISOLATED = listener.family == socket.AF_VSOCK
    prefer_to_end(LAST_TO_END)
    GROUPS.move()
    if not GROUPS.current.path:
        print("agent: no cgroup 2: a kill reaches one process group alone", file=sys.stderr)
    PROGRAMS.release()  # of an agent before this one
    print("agent: listening", flush=True)
    serve(listener, [stopped] if where.isdecimal() else [stopped, 0])
    PROGRAMS.lock.acquire()  # nothing starts any more
    for program in PROGRAMS.known.values():
        program.kill()
    GROUPS.close()


if __name__ == "__main__":
    main(*sys.argv[1:] or [PORT])
