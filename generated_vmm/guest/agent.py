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
import bisect
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
from typing import Any, BinaryIO
from urllib.parse import parse_qsl, unquote, unquote_to_bytes

VERSION = 1
PORT = "1024"
INSTANCE = os.urandom(16).hex()  # of this process, which knows no programs of another one
HOST_CID = 2
TIOCSWINSZ, F_SETPIPE_SZ = 0x5414, 1031
RNDADDENTROPY, RNDRESEEDCRNG = 0x40085203, 0x5207
ULIMITS = {"cpu_seconds": "t", "file_kib": "f", "memory_kib": "v", "open_files": "n"}

PART = 256 * 1024  # bytes read or written at once
LARGEST_BODY = 4 * 1024 * 1024
LONGEST_LINE, LONGEST_HEAD = 65536, 65536
LONGEST_WAIT = 30.0  # seconds that a request waits for news
LONGEST_SILENCE = 60.0  # seconds without a byte of a request that has begun
REPLAY = 1024 * 1024  # bytes of output that can be read again
MOST_CHUNKS = 4096  # pieces of output, for a program that writes single bytes
ENDED_BYTES, ENDED_PROGRAMS = 16 * 1024 * 1024, 256  # of ended programs; the oldest go first
LARGEST_SPECIAL = 16 * 1024 * 1024  # bytes of a file without a size, as in /proc
HELD_SECONDS = 60.0  # that a guest stands still at most; while its machine is paused none pass


class Refused(Exception):
    """A request that is not carried out: status, stable code, text, and perhaps an errno."""

    def __init__(self, status: int, code: str, text: str, number: int | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.fault = {"fault_message": text, "code": code, "errno": number}


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


# Programs


def own_group() -> str | None:
    """The folder of this process in cgroup 2, None without one."""
    with contextlib.suppress(OSError, StopIteration):
        with open("/proc/mounts") as mounts, open("/proc/self/cgroup") as groups:
            mount = next(line.split()[1] for line in mounts if line.split()[2] == "cgroup2")
            own = next(line[3:].strip("/\n") for line in groups if line.startswith("0::"))
        return os.path.join(mount, own)
    return None


def freeze(group: str, wanted: bool) -> None:
    """Freezes the processes of a control group and waits until they stand still, or thaws them."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):  # it has ended meanwhile
        with open(f"{group}/cgroup.freeze", "w") as file:
            file.write("1" if wanted else "0")
        deadline = time.monotonic() + 5
        while wanted and not is_frozen(group):
            if time.monotonic() > deadline:
                raise OSError(errno.EBUSY, "a process does not stand still", group)
            time.sleep(0.001)


def is_frozen(group: str) -> bool:
    """Whether all processes of a control group stand still."""
    with open(f"{group}/cgroup.events") as events:
        return "frozen 1" in events.read()


def groups_beside(own: str) -> list[str]:
    """The control groups of everything else in this guest, except that of process 1."""
    if not ISOLATED:
        return []  # they are those of a host
    found, folder = [], own
    while os.path.exists(os.path.join(parent := os.path.dirname(folder), "cgroup.procs")):
        beside = (each.path for each in os.scandir(parent) if each.is_dir())
        found += [path for path in beside if path != folder and not path.endswith("/init.scope")]
        folder = parent
    return found


def resize(terminal: int, size: dict[str, int]) -> None:
    """Sets the size of a terminal, which signals its program."""
    fcntl.ioctl(terminal, TIOCSWINSZ, struct.pack("HHHH", size["rows"], size["columns"], 0, 0))


def account(name: str) -> pwd.struct_passwd:
    """The user of a name or a number. Raises `Refused`."""
    try:
        return pwd.getpwuid(int(name)) if name.isdecimal() else pwd.getpwnam(name)
    except KeyError:
        raise Refused(422, "no_such_user", f"{name}: no such user") from None


def require_program(name: str, paths: str, folder: str) -> None:
    """Raises the OSError for a program that cannot be run, for which a shell has a status alone."""
    places = [name] if "/" in name else [os.path.join(path, name) for path in paths.split(":")]
    found = [
        place for place in (os.path.join(folder, each) for each in places) if os.path.exists(place)
    ]
    if not any(os.access(place, os.X_OK) and not os.path.isdir(place) for place in found):
        number = errno.EACCES if found else errno.ENOENT
        raise OSError(number, os.strerror(number), name)


class Program:
    """A program, the last bytes of its output, and every process that it leaves behind.

    A thread reads the output. It stops reading, so that the program waits, while the output that no
    host has acknowledged fills the replay; a program that drops output never waits.
    """

    def __init__(self, name: str, spec: dict[str, Any]) -> None:
        self.name, self.spec, self.terminal = name, spec, spec.get("terminal")
        self.replay, self.drops = spec.get("replay_bytes", REPLAY), spec.get("drop_output", False)
        self.condition, self.input_lock = threading.Condition(), threading.Lock()
        self.starts: list[int] = []  # the position of each chunk
        self.chunks: list[tuple[str, bytes]] = []
        self.end = self.acknowledged = self.input_size = 0
        self.returncode: int | None = None
        self.timed_out = False
        self.token = os.urandom(16).hex()
        self.group = f"{GROUP}/guest-{self.token}" if GROUP else ""
        self.input: int | None = None
        self.awake, self.waking = os.pipe()
        os.set_blocking(self.waking, False)
        self.outlets: dict[int, str] = {}
        theirs = self._open_ends()
        try:
            self.child = self._start(theirs)
        except BaseException:
            self._close()
            raise
        finally:
            for end in set(theirs):
                os.close(end)
        threading.Thread(target=self._run, daemon=True).start()

    def _open_ends(self) -> list[int]:
        """Opens our ends of input and output, and returns those of the program."""
        if self.terminal:
            outer, inner = os.openpty()
            self.outlets, self.input, theirs = {outer: "stdout"}, os.dup(outer), [inner] * 3
            resize(outer, self.terminal)
        else:
            (out, out_inner), (err, err_inner) = os.pipe(), os.pipe()
            self.outlets, theirs = {out: "stdout", err: "stderr"}, [0, out_inner, err_inner]
            if self.spec.get("stdin"):
                theirs[0], self.input = os.pipe()
                with contextlib.suppress(OSError):  # over the limit of a user
                    fcntl.fcntl(self.input, F_SETPIPE_SZ, PART)
            else:
                theirs[0] = os.open(os.devnull, os.O_RDONLY)
        if self.input is not None:
            os.set_blocking(self.input, False)
        return theirs

    def _start(self, ends: list[int]) -> subprocess.Popen[bytes]:
        """Starts a shell that becomes the program: `preexec_fn` would need a slow fork."""
        environment = {**os.environ, "GUEST_PROGRAM": self.token}
        user = account(self.spec["user"]) if self.spec.get("user") else None
        if user:
            environment |= {"HOME": user.pw_dir, "USER": user.pw_name, "LOGNAME": user.pw_name}
        environment |= self.spec.get("env") or {}
        args, folder = self.spec["args"], self.spec.get("cwd")
        require_program(args[0], environment.get("PATH", os.defpath), folder or "")
        self._make_group()
        steps = [f"exec <>{os.ttyname(ends[0])} >&0 2>&1"] if self.terminal else []
        if self.group and not user:
            steps.append(f"echo 0 >{self.group}/cgroup.procs")
        for name, limit in (self.spec.get("limits") or {}).items():
            steps.append(f"ulimit -{ULIMITS[name]} {limit:d}")
        script = " && ".join([*steps, 'exec "$@"'])
        return subprocess.Popen(
            ["/bin/sh", "-c", script, "sh", *args],
            stdin=ends[0], stdout=ends[1], stderr=ends[2], cwd=folder, env=environment,
            preexec_fn=self._entering(user, ends[0]) if user else None, start_new_session=True,
        )  # fmt: skip

    def _entering(self, user: pwd.struct_passwd, terminal: int) -> Callable[[], None]:
        """What the child does to become another user, with system calls alone."""
        groups = os.getgrouplist(user.pw_name, user.pw_gid)
        if self.terminal:
            os.fchown(terminal, user.pw_uid, -1)

        def enter() -> None:
            if self.group:
                procs = os.open(f"{self.group}/cgroup.procs", os.O_WRONLY)
                os.write(procs, b"0")
                os.close(procs)
            os.setgroups(groups)
            os.setgid(user.pw_gid)
            os.setuid(user.pw_uid)

        return enter

    def _make_group(self) -> None:
        try:
            os.mkdir(self.group)
        except OSError:  # without the rights, the token names the processes
            self.group = ""

    def _run(self) -> None:
        exited = os.pidfd_open(self.child.pid)
        limit = self.spec.get("timeout_ms")
        deadline = time.monotonic() + limit / 1000 if limit else None
        while not self._step(exited, deadline):
            pass
        for outlet in list(self.outlets):  # what is there now: others may write for ever
            for _ in range(32):
                if outlet in self.outlets and select.select([outlet], [], [], 0)[0]:
                    self._append(*self._read(outlet))
        with self.condition:
            self.returncode = self.child.wait()
            self.condition.notify_all()
        os.close(exited)
        while self.outlets:  # processes that it left behind must not wait
            for outlet in select.select(list(self.outlets), [], [])[0]:
                self._read(outlet)
        self._close()

    def _step(self, exited: int, deadline: float | None) -> bool:
        """Waits for news and handles them; true once the program has ended."""
        poll = select.poll()
        for end in (exited, self.awake, *(self.outlets if self._has_room() else ())):
            poll.register(end, select.POLLIN)
        left = None if deadline is None or self.timed_out else deadline - time.monotonic()
        found = {end for end, _ in poll.poll(None if left is None else max(0.0, left * 1000))}
        if left is not None and left <= 0:
            self.timed_out = True
            self.kill()
        for end in found - {exited}:
            if end == self.awake:
                os.read(end, 4096)
            else:
                self._append(*self._read(end))
        return exited in found

    def _read(self, outlet: int) -> tuple[str, bytes]:
        """The next bytes of an outlet, with their stream; at its end, it is closed."""
        stream, data = self.outlets[outlet], b""
        with contextlib.suppress(OSError):  # EIO: a terminal without programs
            data = os.read(outlet, 65536)
        if not data:
            del self.outlets[outlet]
            os.close(outlet)
        return stream, data

    def _append(self, stream: str, data: bytes) -> None:
        with self.condition:
            if data:
                self.starts.append(self.end)
                self.chunks.append((stream, data))
            self.end += len(data)
            self._trim()
            self.condition.notify_all()

    def _trim(self) -> None:
        """Drops the oldest output beyond the replay, if it is acknowledged or may be lost."""
        while len(self.starts) > 1:
            after = self.starts[1]
            is_over = self.end - after >= self.replay or len(self.chunks) > MOST_CHUNKS
            if not is_over or not (self.drops or after <= self.acknowledged):
                return
            del self.starts[0], self.chunks[0]

    def _has_room(self) -> bool:
        with self.condition:
            unread = self.end - self.acknowledged
            return self.drops or (unread < self.replay and len(self.chunks) <= MOST_CHUNKS)

    # For hosts, from any thread.

    def view(self) -> dict[str, object]:
        """The state of the program."""
        return {
            "id": self.name, "pid": self.child.pid, "args": self.spec["args"],
            "returncode": self.returncode, "timed_out": self.timed_out,
            "output_bytes": self.end, "input_bytes": self.input_size,
        }  # fmt: skip

    def wait(self, seconds: float) -> None:
        """Waits until the program has ended, or the time is up."""
        with self.condition:
            self.condition.wait_for(lambda: self.returncode is not None, seconds)

    def output(self, offset: int, seconds: float) -> dict[str, object]:
        """The output from a position on, at most `PART` bytes; all before it is acknowledged."""
        with self.condition:
            if not 0 <= offset <= self.end:
                raise Refused(409, "no_such_offset", f"the output has {self.end} bytes")
            self.acknowledged = max(self.acknowledged, offset)
            self._trim()
            with contextlib.suppress(OSError):  # the thread is awake already
                os.write(self.waking, b"x")
            self.condition.wait_for(
                lambda: self.end > offset or self.returncode is not None, seconds
            )
            at = begin = max(offset, self.starts[0]) if self.starts else offset
            frames: list[object] = []
            index = bisect.bisect_right(self.starts, at) - 1
            while at < min(self.end, begin + PART):
                stream, data = self.chunks[index]
                part = data[at - self.starts[index] :][: begin + PART - at]
                frames.append({"stream": stream, "data": base64.b64encode(part).decode()})
                at, index = at + len(part), index + 1
            lost = begin - offset
            return {"frames": frames, "lost_bytes": lost, "next_offset": at, "program": self.view()}

    def write(self, offset: int, data: bytes, seconds: float, close: bool) -> dict[str, object]:
        """Writes what the program takes in time; bytes that it has are not written again."""
        with self.input_lock:
            if not 0 <= offset <= self.input_size:
                raise Refused(409, "no_such_offset", f"the input has {self.input_size} bytes")
            rest, deadline = data[self.input_size - offset :], time.monotonic() + seconds
            try:
                while rest and self.input is not None:
                    left = max(0.0, deadline - time.monotonic())
                    if not select.select([], [self.input], [], left)[1]:
                        break
                    size = os.write(self.input, rest)
                    rest, self.input_size = rest[size:], self.input_size + size
                if close and not rest and self.input is not None:
                    if self.terminal:
                        os.write(self.input, b"\x04")  # what ends the input of a terminal
                    else:
                        self._close_input()
            except OSError:  # the program reads no more
                self._close_input()
            return {"input_bytes": self.input_size, "is_open": self.input is not None}

    def resize(self, size: dict[str, int]) -> None:
        """Sets the size of the terminal."""
        with self.input_lock:
            if not self.terminal or self.input is None:
                raise Refused(409, "no_terminal", f"{self.name} has no terminal")
            resize(self.input, size)

    def signal(self, number: int) -> None:
        """Signals the process group; SIGKILL ends every process that the program has started."""
        if number == signal.SIGKILL:
            return self.kill()
        with self.condition:
            if self.returncode is None:  # else another group may have its number
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self.child.pid, number)

    def hold(self, wanted: bool) -> None:
        """Makes every process of the program stand still, or run again."""
        if self.group:
            return freeze(self.group, wanted)
        known: set[int] = set()
        while found := set(self._members()) - known:  # those that were forked meanwhile
            known |= found
            for pid in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP if wanted else signal.SIGCONT)

    def kill(self) -> None:
        """Ends every process of the program, those in other sessions included."""
        if self.group:  # nothing can fork then; SIGKILL ends frozen ones
            with contextlib.suppress(OSError), open(f"{self.group}/cgroup.freeze", "w") as file:
                file.write("1")
        with self.condition:
            if self.returncode is None:  # it may be a shell yet, which has not joined the group
                os.kill(self.child.pid, signal.SIGKILL)
        deadline = time.monotonic() + 5
        while (found := self._members()) and time.monotonic() < deadline:
            for pid in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.001)
        self._remove_group()

    def _members(self) -> list[int]:
        """The living processes of the group; without one, those that have inherited the token."""
        if self.group:
            with contextlib.suppress(OSError), open(f"{self.group}/cgroup.procs") as procs:
                return [int(line) for line in procs]
            return []
        return [int(name) for name in os.listdir("/proc") if name.isdigit() and self._owns(name)]

    def _owns(self, pid: str) -> bool:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
            return f"GUEST_PROGRAM={self.token}".encode() in file.read().split(b"\0")
        return False

    def _close_input(self) -> None:
        if self.input is not None:
            os.close(self.input)
        self.input = None

    def _close(self) -> None:
        with self.condition, self.input_lock:
            self._close_input()
            for end in (*self.outlets, self.awake, self.waking):
                os.close(end)
            self.outlets, self.waking = {}, -1
        self._remove_group()

    def _remove_group(self) -> None:
        with contextlib.suppress(OSError):  # it has processes, or is gone
            os.rmdir(self.group)


class Programs:
    """The programs of this agent, each under the id that its host chose.

    While they are held, everything but the agent stands still, and nothing starts. So a clone of
    this guest does nothing before its identity is renewed.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.known: dict[str, Program] = {}
        self.expiry: threading.Timer | None = None

    def hold(self) -> None:
        """Makes everything stand still, until `release` or for some time."""
        with self.lock:
            self._expire_after()
            try:
                self._freeze(True)
            except BaseException:
                self._release()
                raise

    def _freeze(self, wanted: bool) -> None:
        for program in list(self.known.values()):
            program.hold(wanted)
        for group in groups_beside(GROUP) if GROUP else ():
            freeze(group, wanted)

    def _expire_after(self) -> None:
        if self.expiry:
            self.expiry.cancel()
        self.expiry = timer = threading.Timer(HELD_SECONDS, lambda: self.release(timer))
        timer.daemon = True
        timer.start()

    def release(self, expired: threading.Timer | None = None) -> None:
        """Lets everything run again; a timer does so only for the hold that it belongs to."""
        with self.lock:
            if expired is None or expired is self.expiry:
                self._release()

    def _release(self) -> None:
        if self.expiry:
            self.expiry.cancel()
        self._freeze(False)
        self.expiry = None

    @contextlib.contextmanager
    def releasing(self) -> Iterator[None]:
        """A block before a release. Raises `Refused` if something has run since the hold."""
        with self.lock:
            if self.expiry is None:
                raise Refused(409, "not_held", "the programs are not held any more")
            self._expire_after()
            yield
            self._release()

    def start(self, name: str, spec: dict[str, Any]) -> Program:
        """Starts the program once, however often it is asked to."""
        with self.lock:
            if program := self.known.get(name):
                if program.spec != spec:
                    raise Refused(409, "id_taken", f"{name} is the id of another program")
                return program
            if self.expiry:
                raise Refused(503, "held", "nothing starts before the programs are released")
            if spec.get("agent", INSTANCE) != INSTANCE:
                text = f"the agent was restarted; {name} may have run before"
                raise Refused(409, "other_agent", text)
            self._make_room()
            return self.known.setdefault(name, Program(name, spec))

    def _make_room(self) -> None:
        ended = [one for one in self.known.values() if one.returncode is not None]
        sizes = [sum(len(data) for _, data in one.chunks) for one in ended]
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
        self.known.pop(name, None)


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
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            if owner or before:
                ids = owner_of(owner) if owner else (before.st_uid, before.st_gid)  # type: ignore[union-attr]  # one of them is
                os.fchown(file.fileno(), *ids)
            default = stat.S_IMODE(before.st_mode) if before else 0o644
            os.fchmod(file.fileno(), int(mode, 8) if mode else default)  # fchown clears bits
        os.replace(temporary, target)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


def without_waiting(path: str, flags: int) -> int:
    """An opener that does not wait for the other end of a pipe."""
    return os.open(path, flags | os.O_NONBLOCK)


def owner_of(owner: str) -> tuple[int, int]:
    """The numbers in `uid:gid`, or those of a user and its own group."""
    if found := re.fullmatch(r"(\d+):(\d+)", owner):
        return int(found[1]), int(found[2])
    user = account(owner)
    return user.pw_uid, user.pw_gid


@contextlib.contextmanager
def tar(*words: str | bytes, stdin: int | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """The guest's own tar; raises OSError with what it said if it fails."""
    command, environment = ["tar", *words], {**os.environ, "LC_ALL": "C"}
    with open(os.memfd_create("tar"), "rb") as said:
        with subprocess.Popen(
            command, 0, stdin=stdin, stdout=subprocess.PIPE, stderr=said, env=environment
        ) as child:
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
            raise OSError(number, f"{os.strerror(number)} (tar: {' '.join(text.split())})")


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
    for command in ("ssh-keygen -A", "systemctl try-restart ssh.service sshd.service"):
        with contextlib.suppress(FileNotFoundError):  # no such program in this guest
            subprocess.run(command.split(), check=False, capture_output=True)


RENEWALS: dict[str, Callable[[Any], object]] = {  # the seed first: later steps need randomness
    "seed": reseed,
    "unix_ns": lambda nanoseconds: time.clock_settime_ns(time.CLOCK_REALTIME, nanoseconds),
    "machine_id": lambda name: write_text(b"/etc/machine-id", f"{name}\n"),
    "hostname": set_hostname,
    "host_keys": lambda wanted: renew_host_keys() if wanted else None,
}

# Requests


def require_known(members: Iterable[str], known: Iterable[str]) -> None:
    """Raises `Refused` with the names that only a newer version knows."""
    if unknown := sorted(set(members) - set(known)):
        raise Refused(501, "unknown", f"version {VERSION} does not know {', '.join(unknown)}")


class Link(threading.Thread):
    """One connection of a host, and its requests one after the other."""

    def __init__(self, link: socket.socket) -> None:
        super().__init__(daemon=True)
        self.link, self.file = link, link.makefile("rb")
        self.parts: Iterator[bytes] = iter(())
        self.query: dict[str, str] = {}
        self.goes_on = True

    def run(self) -> None:
        """Answers requests until the host goes away."""
        with contextlib.suppress(OSError, ValueError), self.link, self.file:
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
        self.query = dict(parse_qsl(query))
        try:
            self._answer(method, path)
        except Refused as refused:
            self._reply(refused.status, refused.fault)
        except OSError as error:
            if error.errno in (None, errno.ECONNRESET, errno.EPIPE):
                raise  # of this connection
            text = f"{error.strerror}: {os.fsdecode(error.filename or '')}"
            self._reply(422, Refused(422, "failed", text.rstrip(": "), error.errno).fault)
        except (ValueError, KeyError, TypeError) as error:
            self._reply(400, Refused(400, "malformed", f"{type(error).__name__}: {error}").fault)
        for _ in self.parts:  # of a body that was refused
            pass

    def _parts(self, size: int) -> Iterator[bytes]:
        """The body of a request in parts. Raises ConnectionResetError if it is cut off."""
        while size > 0:
            if not (data := self.file.read(min(PART, size))):
                raise ConnectionResetError(errno.ECONNRESET, "the request is cut off")
            size -= len(data)
            yield data

    def _body(self, *known: str) -> dict[str, Any]:
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

    def _seconds(self) -> float:
        return min(int(self.query.get("wait_ms", "0")) / 1000, LONGEST_WAIT)

    def _head(self, status: int, header: str) -> None:
        head = f"HTTP/1.1 {status} -\r\nAgent-Version: {VERSION}\r\n{header}\r\n\r\n"
        self.link.sendall(head.encode())

    def _reply(self, status: int, value: object) -> None:
        data = to_json(value).encode()
        self._head(status, f"Content-Type: application/json\r\nContent-Length: {len(data)}")
        self.link.sendall(data)

    def _answer(self, method: str, path: str) -> None:
        for (known, pattern), handler in ROUTES.items():
            if method == known and (found := re.fullmatch(pattern, path)):
                value = handler(self, *map(unquote, found.groups()))
                return None if value is None else self._reply(200, value)
        raise Refused(501, "unknown", f"version {VERSION} does not know {method} {path}")

    # One method for each operation.

    def get_agent(self) -> object:
        """This agent."""
        return {"version": VERSION, "instance": INSTANCE, "isolated": ISOLATED}

    def list_programs(self) -> object:
        """Every program that is known."""
        return [program.view() for program in list(PROGRAMS.known.values())]

    def start_program(self, name: str) -> object:
        """Starts a program, once."""
        known = "args env cwd user limits terminal stdin timeout_ms replay_bytes drop_output agent"
        spec = self._body(*known.split())
        require_known(spec.get("limits") or {}, ULIMITS)
        return PROGRAMS.start(name, spec).view()

    def get_program(self, name: str) -> object:
        """The state of a program, at its end or when the time is up."""
        program = PROGRAMS.get(name)
        program.wait(self._seconds())
        return program.view()

    def remove_program(self, name: str) -> object:
        """Ends a program and forgets it."""
        PROGRAMS.remove(name)
        return {}

    def read_output(self, name: str) -> object:
        """The next output of a program."""
        return PROGRAMS.get(name).output(int(self.query["offset"]), self._seconds())

    def write_input(self, name: str) -> object:
        """Input for a program."""
        body = self._body("offset", "data", "close")
        data, close = base64.b64decode(body["data"]), body.get("close", False)
        return PROGRAMS.get(name).write(body["offset"], data, self._seconds(), close)

    def signal_program(self, name: str) -> object:
        """A signal for a program."""
        program = PROGRAMS.get(name)
        program.signal(self._body("signal")["signal"])
        return program.view()

    def resize_terminal(self, name: str) -> object:
        """Another size of a program's terminal."""
        PROGRAMS.get(name).resize(self._body("rows", "columns"))
        return {}

    def stat_file(self, path: str) -> object:
        """What a path leads to."""
        found = os.stat(unquote_to_bytes(path))
        kinds = {stat.S_IFREG: "file", stat.S_IFDIR: "folder"}
        return {
            "kind": kinds.get(stat.S_IFMT(found.st_mode), "other"), "size": found.st_size,
            "mode": stat.S_IMODE(found.st_mode), "uid": found.st_uid, "gid": found.st_gid,
            "modified_ns": found.st_mtime_ns,
        }  # fmt: skip

    def read_file(self, path: str) -> None:
        """The content of a file."""
        with open(unquote_to_bytes(path), "rb", opener=without_waiting) as file:
            size = os.fstat(file.fileno()).st_size
            data = b"" if size else file.read(LARGEST_SPECIAL) or b""
            self._head(200, f"Content-Length: {size or len(data)}")
            self.link.sendall(data)
            if size and self.link.sendfile(file, 0, size) != size:
                raise ConnectionResetError(errno.ECONNRESET, "the file was cut off")

    def write_file(self, path: str) -> object:
        """Replaces a file as a whole."""
        with replacing(unquote_to_bytes(path), **self.query) as file:
            for part in self.parts:
                file.write(part)
        return {}

    def read_folder(self, path: str) -> None:
        """A folder as a tar stream, which is cut off if tar fails."""
        folder = unquote_to_bytes(path)
        os.listdir(folder)  # raises what is wrong with it, before the response begins
        with tar("-C", folder, "-cf", "-", ".") as child:
            self._head(200, "Transfer-Encoding: chunked")
            try:
                while data := child.stdout.read(PART):  # type: ignore[union-attr]  # a pipe
                    self.link.sendall(b"%x\r\n%b\r\n" % (len(data), data))
            except OSError as error:
                raise ConnectionResetError(errno.ECONNRESET, "the host went away") from error
        self.link.sendall(b"0\r\n\r\n")

    def write_folder(self, path: str) -> object:
        """Unpacks a tar stream: into a folder that is there, else as a whole or not at all."""
        into = target = os.path.realpath(unquote_to_bytes(path))
        if not os.path.lexists(target):
            os.mkdir(into := beside(target), 0o755)
        try:
            with tar("-C", into, "-xpof", "-", stdin=subprocess.PIPE) as child:
                for part in self.parts:
                    child.stdin.write(part)  # type: ignore[union-attr]  # a pipe
            os.rename(into, target)
        except BaseException:
            if into != target:
                subprocess.run([b"rm", b"-rf", b"--", into], check=False)
            raise
        return {}

    def connect_port(self, number: str) -> None:
        """Joins this connection to a port of the guest's own address."""
        try:
            port = socket.create_connection(("127.0.0.1", int(number)))
        except ConnectionRefusedError:
            port = socket.create_connection(("::1", int(number)))
        self.link.settimeout(None)
        self.goes_on = False
        self.link.sendall(b"HTTP/1.1 200 -\r\n\r\n")
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
        body = self._body(*RENEWALS, "release")
        if not ISOLATED:
            raise Refused(403, "no_machine", "this agent is a process of a host, not of a machine")
        done = [name for name in RENEWALS if name in body]
        with PROGRAMS.releasing() if body.get("release") else contextlib.nullcontext():
            for name in done:
                RENEWALS[name](body[name])
        return {"renewed": done}

    def hold(self) -> object:
        """Makes everything but this agent stand still."""
        PROGRAMS.hold()
        return {}

    def let_go(self) -> object:
        """Lets everything run again."""
        PROGRAMS.release()
        return {}


def relay(source: socket.socket, target: socket.socket, end: int = socket.SHUT_WR) -> None:
    """Moves bytes in one direction until their end, which ends the target in this way."""
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(end)


NAME = "/programs/([^/]+)"
ROUTES: dict[tuple[str, str], Callable[..., object]] = {
    ("GET", "/agent"): Link.get_agent,
    ("GET", "/programs"): Link.list_programs,
    ("GET", NAME): Link.get_program,
    ("PUT", NAME): Link.start_program,
    ("DELETE", NAME): Link.remove_program,
    ("GET", f"{NAME}/output"): Link.read_output,
    ("PUT", f"{NAME}/input"): Link.write_input,
    ("PUT", f"{NAME}/signal"): Link.signal_program,
    ("PUT", f"{NAME}/terminal"): Link.resize_terminal,
    ("GET", "/stat/([^/]+)"): Link.stat_file,
    ("GET", "/files/([^/]+)"): Link.read_file,
    ("PUT", "/files/([^/]+)"): Link.write_file,
    ("GET", "/folders/([^/]+)"): Link.read_folder,
    ("PUT", "/folders/([^/]+)"): Link.write_folder,
    ("GET", r"/ports/(\d+)"): Link.connect_port,
    ("PUT", "/clock"): Link.renew,
    ("PUT", "/identity"): Link.renew,
    ("PUT", "/hold"): Link.hold,
    ("DELETE", "/hold"): Link.let_go,
}
GROUP = own_group()
PROGRAMS = Programs()
ISOLATED = False  # before `main` knows where it listens, and wherever this is only imported


def end_with_input() -> None:
    """Ends this process when nobody holds the other end of its standard input."""
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def end_once(number: int, _: object) -> None:
    """Ends this process; a second signal does not interrupt the end of its programs."""
    signal.signal(number, signal.SIG_IGN)
    sys.exit()


def listener_for(where: str) -> socket.socket:
    """A socket on a vsock port, or on a path of the host's file system for this user alone."""
    if where.isdecimal():
        listener = socket.socket(socket.AF_VSOCK)
        listener.bind((socket.VMADDR_CID_ANY, int(where)))
    else:
        listener = socket.socket(socket.AF_UNIX)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(where)
        listener.bind(where)
        os.chmod(where, 0o600)  # nobody can connect before `listen`
        threading.Thread(target=end_with_input, daemon=True).start()
    listener.listen(128)
    return listener


def main(where: str) -> None:
    """Serves until a signal, and ends every program then."""
    global ISOLATED
    signal.signal(signal.SIGTERM, end_once)
    listener = listener_for(where)
    ISOLATED = listener.family == socket.AF_VSOCK
    PROGRAMS.release()  # of an agent before this one
    print("agent: listening", flush=True)
    try:
        while True:
            link, address = listener.accept()
            if ISOLATED and address[0] != HOST_CID:  # a program in the guest
                link.close()
            else:
                Link(link).start()
    finally:
        for program in list(PROGRAMS.known.values()):
            program.kill()


if __name__ == "__main__":
    main(*sys.argv[1:] or [PORT])
