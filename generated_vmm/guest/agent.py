"""The agent of a guest: runs programs, moves files and renews clones, for the host alone.

    agent.py                      listens on vsock port 1024 (`--port N`) for the host
    agent.py --unix PATH          listens on a unix socket of this host: nothing is isolated
    agent.py --unix PATH --stdin  the same, and ends when its standard input does

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
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO
from urllib.parse import parse_qs, unquote, unquote_to_bytes

VERSION = 1
PORT = 1024
INSTANCE = os.urandom(16).hex()  # of this process, which knows no programs of another one

HOST_CID = 2
TIOCSCTTY, TIOCSWINSZ, F_SETPIPE_SZ = 0x540E, 0x5414, 1031
RNDADDENTROPY, RNDRESEEDCRNG = 0x40085203, 0x5207
ULIMITS = {"cpu_seconds": "t", "file_kib": "f", "memory_kib": "v", "open_files": "n"}

PART = 256 * 1024  # bytes read or written at once
LONGEST_LINE, MOST_HEADERS, LARGEST_BODY = 65536, 50, 4 * 1024 * 1024
LONGEST_WAIT = 30.0  # seconds that a request waits for news
LONGEST_SILENCE = 60.0  # seconds without a byte of a request that has begun
REPLAY = 1024 * 1024  # bytes of output that can be read again
MOST_CHUNKS = 4096  # pieces of output, for a program that writes single bytes
ENDED_BYTES, ENDED_PROGRAMS = 16 * 1024 * 1024, 256  # of ended programs; the oldest go first
LARGEST_SPECIAL = 16 * 1024 * 1024  # bytes of a file without a size, as in /proc


class Refused(Exception):
    """A request that is not carried out: status, stable code, text, and an errno if there is one."""

    def __init__(self, status: int, code: str, message: str, number: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.fault = {"fault_message": message, "code": code, "errno": number}


# JSON

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|\b(?:true|false|null)\b')
WORDS = {"true": "True", "false": "False", "null": "None"}
ESCAPED = re.compile(r"\\(u[0-9a-fA-F]{4}|.)")
LETTERS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
TO_ESCAPE = re.compile(r'["\\\x00-\x1f]')


def read_json(content: bytes) -> Any:
    """The value of a JSON text, read as a literal of Python. Raises ValueError."""
    try:
        return ast.literal_eval(
            TOKEN.sub(lambda found: literal(found[0]), content.decode()).strip()
        )
    except (SyntaxError, MemoryError, RecursionError) as error:
        raise ValueError("not JSON") from error


def literal(token: str) -> str:
    """The Python literal of a string or a word of JSON."""
    if token in WORDS:
        return WORDS[token]
    text = ESCAPED.sub(
        lambda found: (
            chr(int(found[1][1:], 16)) if found[1][1:] else LETTERS.get(found[1], found[1])
        ),
        token[1:-1],
    )
    # A character beyond \uffff is two escapes.
    return repr(text.encode("utf-16", "surrogatepass").decode("utf-16"))


def to_json(value: object) -> str:
    """JSON of an answer: objects, lists, text, whole numbers, true, false and null."""
    if isinstance(value, dict):
        return "{%s}" % ",".join(f"{to_json(key)}:{to_json(one)}" for key, one in value.items())
    if isinstance(value, list):
        return "[%s]" % ",".join(map(to_json, value))
    if isinstance(value, str):
        text = value.encode(errors="replace").decode()
        return '"%s"' % TO_ESCAPE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
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


def sized(terminal: int, size: dict[str, int]) -> None:
    """Sets the size of a terminal, which tells its program."""
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
        self.name, self.spec = name, spec
        self.token = os.urandom(16).hex()
        self.replay, self.drops = spec.get("replay_bytes", REPLAY), spec.get("drop_output", False)
        self.condition, self.input_lock = threading.Condition(), threading.Lock()
        self.starts: list[int] = []
        self.chunks: list[tuple[str, bytearray]] = []
        self.end = self.acknowledged = self.input_size = 0
        self.returncode: int | None = None
        self.timed_out = False
        self.awake, self.waking = os.pipe()
        os.set_blocking(self.waking, False)
        self.group = self._make_group()
        self.input: int | None = None
        self.child, self.outlets = self._start()
        threading.Thread(target=self._run, daemon=True).start()

    def _make_group(self) -> str | None:
        if GROUP is None:
            return None
        try:
            os.mkdir(group := f"{GROUP}/guest-{self.token}")
        except OSError:
            return None
        return group

    def _start(self) -> tuple[subprocess.Popen[bytes], dict[int, str]]:
        spec, size = self.spec, self.spec.get("terminal")
        user = account(spec["user"]) if spec.get("user") else None
        groups = os.getgrouplist(user.pw_name, user.pw_gid) if user else []
        environment = {**os.environ, "GUEST_PROGRAM": self.token}
        if user:
            environment |= {"HOME": user.pw_dir, "USER": user.pw_name, "LOGNAME": user.pw_name}
        args = list(spec["args"])
        if limits := spec.get("limits"):
            rules = "".join(f"ulimit -{ULIMITS[name]} {limits[name]:d} && " for name in limits)
            args = ["/bin/sh", "-c", f'{rules}exec "$@"', "sh", *args]
        outer, inner = os.openpty() if size else (-1, -1)
        procs = os.open(f"{self.group}/cgroup.procs", os.O_WRONLY) if self.group else -1

        def enter() -> None:  # in the child, with system calls alone
            if procs >= 0:
                os.write(procs, b"0")
            if inner >= 0:
                fcntl.ioctl(0, TIOCSCTTY, 0)
            if user:
                os.setgroups(groups)
                os.setgid(user.pw_gid)
                os.setuid(user.pw_uid)

        source = subprocess.PIPE if spec.get("stdin") else subprocess.DEVNULL
        try:
            if size:
                sized(outer, size)
            child = subprocess.Popen(
                args,
                stdin=inner if size else source,
                stdout=inner if size else subprocess.PIPE,
                stderr=inner if size else subprocess.PIPE,
                cwd=spec.get("cwd"),
                env={**environment, **spec.get("env", {})},
                preexec_fn=enter,
                start_new_session=True,
                bufsize=0,
            )
        except BaseException as error:
            self._forget_group()
            for end in (self.awake, self.waking, *([outer] if size else [])):
                os.close(end)
            if isinstance(error, subprocess.SubprocessError):
                raise Refused(422, "not_started", f"{args[0]}: user or group refused") from None
            raise
        finally:
            for end in (procs, inner):
                if end >= 0:
                    os.close(end)
        if size:
            self.input = os.dup(outer)
            os.set_blocking(self.input, False)
            return child, {outer: "stdout"}
        if child.stdin:
            self.input = os.dup(child.stdin.fileno())
            child.stdin.close()
            with contextlib.suppress(OSError):
                fcntl.fcntl(self.input, F_SETPIPE_SZ, PART)
            os.set_blocking(self.input, False)
        ends = ((child.stdout, "stdout"), (child.stderr, "stderr"))
        return child, {os.dup(end.fileno()): stream for end, stream in ends if end}

    # The thread of the program.

    def _run(self) -> None:
        for end in (self.child.stdout, self.child.stderr):
            if end:
                end.close()  # this object reads from copies
        exited = os.pidfd_open(self.child.pid)
        limit = self.spec.get("timeout_ms")
        deadline = None if limit is None else time.monotonic() + limit / 1000
        while not self._step(exited, deadline):
            pass
        for outlet in list(self.outlets):
            self._drain(outlet)
        with self.condition:
            self.returncode = self.child.wait()
            self.condition.notify_all()
        os.close(exited)
        for outlet in list(self.outlets):  # processes that it left behind may write on
            while self._read(outlet):
                pass
        self._forget_group()

    def _step(self, exited: int, deadline: float | None) -> bool:
        """Waits for news and handles them; true once the program has ended."""
        poll = select.poll()
        with self.condition:
            readable = [*self.outlets] if self._has_room() else []
        for end in (exited, self.awake, *readable):
            poll.register(end, select.POLLIN)
        left = None if deadline is None or self.timed_out else deadline - time.monotonic()
        found = {end for end, _ in poll.poll(None if left is None else max(0.0, left) * 1000)}
        if left is not None and not found and deadline is not None and time.monotonic() >= deadline:
            self.timed_out = True
            self.kill()
        for end in found - {exited}:
            if end == self.awake:
                os.read(end, 4096)
            else:
                self._append(self.outlets[end], self._read(end))
        return exited in found

    def _read(self, outlet: int) -> bytes:
        """The next bytes of an outlet, which is closed at its end."""
        data = b""
        with contextlib.suppress(OSError):  # EIO: a terminal without programs
            data = os.read(outlet, 65536)
        if not data:
            del self.outlets[outlet]
            os.close(outlet)
        return data

    def _drain(self, outlet: int) -> None:
        """Reads what is in a pipe, and not what others still write."""
        for _ in range(32):
            if not select.select([outlet], [], [], 0)[0]:
                return
            stream = self.outlets[outlet]
            self._append(stream, data := self._read(outlet))
            if not data:
                return

    def _append(self, stream: str, data: bytes) -> None:
        with self.condition:
            if (
                data
                and self.chunks
                and self.chunks[-1][0] == stream
                and len(self.chunks[-1][1]) < PART
            ):
                self.chunks[-1][1].extend(data)
            elif data:
                self.starts.append(self.end)
                self.chunks.append((stream, bytearray(data)))
            self.end += len(data)
            self._trim()
            self.condition.notify_all()

    def _trim(self) -> None:
        """Drops the oldest output beyond the replay, if it is acknowledged or may be lost."""
        while len(self.starts) > 1:
            after = self.starts[1]
            many = self.end - after >= self.replay or len(self.chunks) > MOST_CHUNKS
            if not (many and (self.drops or after <= self.acknowledged)):
                return
            del self.starts[0], self.chunks[0]

    def _has_room(self) -> bool:
        unread = self.end - self.acknowledged
        return self.drops or (unread < self.replay and len(self.chunks) <= MOST_CHUNKS)

    # What hosts ask for, from any thread.

    def view(self) -> dict[str, object]:
        """The state of the program."""
        return {
            "id": self.name,
            "pid": self.child.pid,
            "args": self.spec["args"],
            "returncode": self.returncode,
            "timed_out": self.timed_out,
            "output_bytes": self.end,
            "input_bytes": self.input_size,
        }

    def wait(self, seconds: float) -> None:
        """Waits until the program has ended, or the time is up."""
        with self.condition:
            self.condition.wait_for(lambda: self.returncode is not None, seconds)

    def output(self, offset: int, seconds: float) -> dict[str, object]:
        """The output from a position on, at most `PART` bytes; all before it is acknowledged."""
        with self.condition:
            if offset > self.end:
                raise Refused(409, "no_such_offset", f"the output has {self.end} bytes")
            self.acknowledged = max(self.acknowledged, offset)
            self._trim()
            with contextlib.suppress(OSError):  # it has ended, or is awake
                os.write(self.waking, b"x")
            self.condition.wait_for(
                lambda: self.end > offset or self.returncode is not None, seconds
            )
            at = begin = max(offset, self.starts[0]) if self.starts else offset
            frames: list[object] = []
            index = bisect.bisect_right(self.starts, at) - 1
            while at < self.end and at - begin < PART:
                stream, data = self.chunks[index]
                part = bytes(data[at - self.starts[index] :][: PART - (at - begin)])
                frames.append({"stream": stream, "data": base64.b64encode(part).decode()})
                at, index = at + len(part), index + 1
            lost = begin - offset
            return {
                "frames": frames, "lost_bytes": lost, "next_offset": at, "program": self.view(),
            }  # fmt: skip

    def write(self, offset: int, data: bytes, seconds: float, *, close: bool) -> dict[str, object]:
        """Writes what the program takes in time; bytes that it has already are not written again."""
        with self.input_lock:
            if offset > self.input_size:
                raise Refused(409, "no_such_offset", f"the input has {self.input_size} bytes")
            rest = memoryview(data)[self.input_size - offset :]
            deadline = time.monotonic() + seconds
            try:
                while rest and self.input is not None:
                    if not select.select([], [self.input], [], max(0, deadline - time.monotonic()))[
                        1
                    ]:
                        break
                    size = os.write(self.input, rest)
                    rest, self.input_size = rest[size:], self.input_size + size
                if close and not rest and self.input is not None:
                    if self.spec.get("terminal"):
                        os.write(self.input, b"\x04")  # the end of input for a terminal's program
                    else:
                        self._close_input()
            except OSError:  # the program reads no more
                self._close_input()
            return {"input_bytes": self.input_size, "is_open": self.input is not None}

    def _close_input(self) -> None:
        if self.input is not None:
            os.close(self.input)
            self.input = None

    def resize(self, size: dict[str, int]) -> None:
        """Sets the size of the terminal."""
        with self.input_lock:
            if not self.spec.get("terminal") or self.input is None:
                raise Refused(409, "no_terminal", f"{self.name} has no terminal")
            sized(self.input, size)

    def signal(self, number: int) -> None:
        """Signals the process group; SIGKILL ends every process that the program has started."""
        if number == signal.SIGKILL:
            return self.kill()
        with self.condition:
            if self.returncode is None:  # else another one may have its number
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self.child.pid, number)

    def kill(self) -> None:
        """Ends every process of the program, those in other sessions included."""
        if self.group:  # nothing may fork meanwhile; SIGKILL ends what is frozen
            with contextlib.suppress(OSError), open(f"{self.group}/cgroup.freeze", "w") as file:
                file.write("1")
        deadline = time.monotonic() + 5
        while (found := self._members()) and time.monotonic() < deadline:
            for pid in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.001)

    def _members(self) -> list[int]:
        """The processes of the control group, else of the session or with the mark of this program."""
        if self.group:
            with contextlib.suppress(OSError), open(f"{self.group}/cgroup.procs") as procs:
                return [int(line) for line in procs]
            return []
        return [
            pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if self._owns(pid)
        ]

    def _owns(self, pid: int) -> bool:
        with contextlib.suppress(OSError):
            with open(f"/proc/{pid}/stat", "rb") as file:
                state, _, _, session = file.read().rpartition(b")")[2].split()[:4]
            if state in b"ZX":
                return False
            if int(session) == self.child.pid:
                return True
            with open(f"/proc/{pid}/environ", "rb") as file:
                return f"GUEST_PROGRAM={self.token}".encode() in file.read().split(b"\0")
        return False

    def _forget_group(self) -> None:
        if self.group:
            with contextlib.suppress(OSError):  # processes are in it
                os.rmdir(self.group)

    def forget(self) -> None:
        """Ends the program and closes what is left of it."""
        self.kill()
        self.wait(5)
        with self.input_lock:
            self._close_input()
        self._forget_group()


class Programs:
    """The programs of this agent, each under the id that its host chose."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.known: dict[str, Program] = {}

    def start(self, name: str, spec: dict[str, Any]) -> Program:
        """Starts the program once, however often it is asked to."""
        with self.lock:
            if program := self.known.get(name):
                if program.spec != spec:
                    raise Refused(409, "id_taken", f"{name} is the id of another program")
                return program
            if spec.get("agent", INSTANCE) != INSTANCE:
                message = "the agent has been restarted: the program may have run before"
                raise Refused(409, "other_agent", message)
            self._make_room()
            program = self.known[name] = Program(name, spec)
            return program

    def _make_room(self) -> None:
        ended = [one for one in self.known.values() if one.returncode is not None]
        size = sum(len(data) for one in ended for _, data in one.chunks)
        while ended and (len(ended) > ENDED_PROGRAMS or size > ENDED_BYTES):
            size -= sum(len(data) for _, data in ended[0].chunks)
            del self.known[ended.pop(0).name]

    def get(self, name: str) -> Program:
        """The program. Raises `Refused`."""
        try:
            return self.known[name]
        except KeyError:
            raise Refused(404, "no_such_program", f"{name}: no such program") from None

    def remove(self, name: str) -> None:
        """Ends the program and forgets it."""
        self.get(name).forget()
        self.known.pop(name, None)

    def end(self) -> None:
        """Ends every program."""
        for program in list(self.known.values()):
            program.kill()


# Files


@contextlib.contextmanager
def replacing(path: bytes, mode: int | None, owner: str) -> Iterator[BinaryIO]:
    """A file that takes the place of another one when it is whole, with its mode and owner."""
    target = os.path.realpath(path)
    temporary = os.path.join(os.path.dirname(target), b".guest-" + os.urandom(8).hex().encode())
    before = os.stat(target) if os.path.exists(target) else None
    if before and not stat.S_ISREG(before.st_mode):
        number = errno.EISDIR if stat.S_ISDIR(before.st_mode) else errno.EINVAL
        raise OSError(number, os.strerror(number))
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            if mode is None:
                mode = stat.S_IMODE(before.st_mode) if before else 0o644
            if owner:
                os.fchown(file.fileno(), *owner_of(owner))
            elif before:
                os.fchown(file.fileno(), before.st_uid, before.st_gid)
            os.fchmod(file.fileno(), mode)  # after fchown, which clears bits
        os.replace(temporary, target)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


def owner_of(owner: str) -> tuple[int, int]:
    """The ids in `user` or `uid:gid`; a user's own group if there is none."""
    if re.fullmatch(r"\d+:\d+", owner):
        uid, gid = owner.split(":")
        return int(uid), int(gid)
    user = account(owner)
    return user.pw_uid, user.pw_gid


@contextlib.contextmanager
def tar(*arguments: str | bytes, **ends: int) -> Iterator[subprocess.Popen[bytes]]:
    """The guest's own tar; raises OSError with what it said if it fails."""
    environment = {**os.environ, "LC_ALL": "C"}
    with subprocess.Popen(
        ["tar", *arguments], stderr=subprocess.PIPE, env=environment, **ends
    ) as child:  # type: ignore[call-overload]
        said: list[bytes] = []
        listener = threading.Thread(target=lambda: said.append(child.stderr.read()), daemon=True)
        listener.start()
        try:
            yield child
        except BrokenPipeError:  # it has failed, and says why
            pass
        except BaseException:
            child.kill()
            raise
        if child.stdin:
            with contextlib.suppress(BrokenPipeError):
                child.stdin.close()
        listener.join()
        if child.wait():
            words = b"".join(said).decode(errors="replace")
            known = (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS, errno.EPERM)
            number = next((one for one in known if os.strerror(one) in words), errno.EIO)
            raise OSError(number, f"{os.strerror(number)} (tar: {' '.join(words.split())[-300:]})")


# The machine


def write_text(path: str, text: str) -> None:
    """Replaces a file of the system."""
    with replacing(os.fsencode(path), None, "") as file:
        file.write(text.encode())


def reseed(seed: bytes) -> None:
    """Gives the kernel a secret that no other clone has, and lets its generator use it at once."""
    with open("/dev/random", "wb", 0) as device:
        fcntl.ioctl(device, RNDADDENTROPY, struct.pack("ii", len(seed) * 8, len(seed)) + seed)
        fcntl.ioctl(device, RNDRESEEDCRNG)


def set_clock(nanoseconds: int) -> None:
    """Sets the time of day."""
    time.clock_settime_ns(time.CLOCK_REALTIME, nanoseconds)


def set_machine_id(name: str) -> None:
    """The machine id of systemd and D-Bus."""
    write_text("/etc/machine-id", f"{name}\n")


def set_hostname(name: str) -> None:
    """The name of the machine, now and after a reboot."""
    socket.sethostname(name)
    write_text("/etc/hostname", f"{name}\n")


def renew_host_keys(_: bool) -> None:
    """New keys of the SSH server, if there is one."""
    folder = "/etc/ssh"
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        if re.fullmatch(r"ssh_host_\w+_key(\.pub)?", name):
            os.unlink(os.path.join(folder, name))
    for command in (
        ["ssh-keygen", "-A"],
        ["systemctl", "try-restart", "ssh.service", "sshd.service"],
    ):
        with contextlib.suppress(FileNotFoundError):  # no such program in this guest
            subprocess.run(command, check=False, capture_output=True)


RENEWALS: dict[str, Callable[[Any], None]] = {  # the seed first: later steps need randomness
    "seed": lambda seed: reseed(base64.b64decode(seed)),
    "unix_ns": set_clock,
    "machine_id": set_machine_id,
    "hostname": set_hostname,
    "host_keys": renew_host_keys,
}

# Requests


class Link(threading.Thread):
    """One connection of a host, and its requests one after the other."""

    def __init__(self, link: socket.socket) -> None:
        super().__init__(daemon=True)
        self.link, self.file = link, link.makefile("rb")
        self.parts: Iterator[bytes] = iter(())
        self.query: dict[str, str] = {}
        self.is_relay = False

    def run(self) -> None:
        """Answers requests until the host goes away."""
        with contextlib.suppress(OSError, ValueError), self.link, self.file:
            while self._answer_one() and not self.is_relay:
                pass

    def _answer_one(self) -> bool:
        self.link.settimeout(None)
        line = self.file.readline(LONGEST_LINE)
        if not line.endswith(b"\r\n"):
            return False
        self.link.settimeout(LONGEST_SILENCE)
        method, target, _ = line.decode("ascii").split(" ", 2)
        headers: dict[str, str] = {}
        while (line := self.file.readline(LONGEST_LINE)) != b"\r\n":
            if not line.endswith(b"\r\n") or len(headers) > MOST_HEADERS:
                return False
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.strip().lower()] = value.strip()
        self.parts = self._parts_of(headers)
        path, _, query = target.partition("?")
        self.query = {name: values[0] for name, values in parse_qs(query).items()}
        try:
            self._answer(method, path)
        except Refused as refused:
            self._reply(refused.status, refused.fault)
        except OSError as error:
            if error.errno in (None, errno.ECONNRESET, errno.EPIPE):
                raise  # of this connection
            name = os.fsdecode(error.filename) if error.filename else ""
            self._reply(422, Refused(422, "failed", f"{error.strerror}: {name}", error.errno).fault)
        except (ValueError, KeyError, TypeError) as error:
            self._reply(400, Refused(400, "malformed", f"{type(error).__name__}: {error}").fault)
        for _ in self.parts:  # of a body that was refused
            pass
        return True

    def _parts_of(self, headers: dict[str, str]) -> Iterator[bytes]:
        """The body of a request in parts. Raises ConnectionError if it is cut off."""
        if "chunked" in headers.get("transfer-encoding", ""):
            while size := int(self.file.readline(64), 16):
                yield from self._bytes(size)
                self.file.readline(8)
            self.file.readline(8)
        else:
            yield from self._bytes(int(headers.get("content-length", "0")))

    def _bytes(self, size: int) -> Iterator[bytes]:
        while size > 0:
            if not (data := self.file.read(min(PART, size))):
                raise ConnectionResetError(errno.ECONNRESET, "the request is cut off")
            size -= len(data)
            yield data

    def _body(self, *known: str) -> dict[str, Any]:
        """The JSON body. A member that is not known is of a newer version: it is named."""
        content = b""
        for part in self.parts:
            content += part
            if len(content) > LARGEST_BODY:
                raise Refused(413, "too_large", f"the body is over {LARGEST_BODY} bytes")
        body = read_json(content)
        if not isinstance(body, dict):
            raise ValueError("the body is no object")
        if unknown := sorted(set(body) - set(known)):
            raise Refused(501, "unknown", f"version {VERSION} does not know {', '.join(unknown)}")
        return body

    def _seconds(self) -> float:
        return min(int(self.query.get("wait_ms", "0")) / 1000, LONGEST_WAIT)

    def _head(self, status: int, header: str) -> None:
        head = f"HTTP/1.1 {status} -\r\nAgent-Version: {VERSION}\r\n{header}\r\n\r\n"
        self.link.sendall(head.encode())

    def _reply(self, status: int, value: object) -> None:
        data = to_json(value).encode()
        head = (
            f"HTTP/1.1 {status} -\r\nAgent-Version: {VERSION}\r\nContent-Type: application/json\r\n"
        )
        self.link.sendall(head.encode() + b"Content-Length: %d\r\n\r\n%b" % (len(data), data))

    def _answer(self, method: str, path: str) -> None:
        for pattern, handlers in ROUTES:
            if (found := re.fullmatch(pattern, path)) and method in handlers:
                value = handlers[method](self, *map(unquote, found.groups()))
                return self._reply(200, value) if value is not None else None
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
        spec = self._body(
            "args", "env", "cwd", "user", "limits", "terminal", "stdin", "timeout_ms",
            "replay_bytes", "drop_output", "agent",
        )  # fmt: skip
        if unknown := sorted(set(spec.get("limits", ())) - set(ULIMITS)):
            raise Refused(501, "unknown", f"version {VERSION} does not know {', '.join(unknown)}")
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
        return PROGRAMS.get(name).write(body["offset"], data, self._seconds(), close=close)

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
            "kind": kinds.get(stat.S_IFMT(found.st_mode), "other"),
            "size": found.st_size,
            "mode": stat.S_IMODE(found.st_mode),
            "uid": found.st_uid,
            "gid": found.st_gid,
            "modified_ns": found.st_mtime_ns,
        }

    def read_file(self, path: str) -> None:
        """The content of a file."""
        with open(os.open(unquote_to_bytes(path), os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            found = os.fstat(file.fileno())
            if stat.S_ISREG(found.st_mode) and found.st_size:
                self._head(200, f"Content-Length: {found.st_size}")
                if self.link.sendfile(file, 0, found.st_size) != found.st_size:
                    raise ConnectionResetError(errno.ECONNRESET, "the file was cut off")
            else:
                data = file.read(LARGEST_SPECIAL) or b""
                self._head(200, f"Content-Length: {len(data)}")
                self.link.sendall(data)

    def write_file(self, path: str) -> object:
        """Replaces a file as a whole."""
        mode = int(self.query["mode"], 8) if "mode" in self.query else None
        with replacing(unquote_to_bytes(path), mode, self.query.get("owner", "")) as file:
            for part in self.parts:
                file.write(part)
        return {}

    def read_folder(self, path: str) -> None:
        """A folder as a tar stream; the stream is cut off if tar fails."""
        folder = unquote_to_bytes(path)
        os.listdir(folder)  # raises what is wrong with it, before the response begins
        with tar("-C", folder, "-cf", "-", ".", stdout=subprocess.PIPE) as child:
            assert child.stdout
            self._head(200, "Transfer-Encoding: chunked")
            try:
                while data := child.stdout.read(PART):
                    self.link.sendall(b"%x\r\n%b\r\n" % (len(data), data))
            except OSError as error:
                raise ConnectionResetError(errno.ECONNRESET, "the host went away") from error
        self.link.sendall(b"0\r\n\r\n")

    def write_folder(self, path: str) -> object:
        """Unpacks a tar stream: into a folder that is there, else as a whole or not at all."""
        target = os.path.realpath(unquote_to_bytes(path))
        into = target
        if not os.path.lexists(target):
            into = os.path.join(os.path.dirname(target), b".guest-" + os.urandom(8).hex().encode())
            os.mkdir(into, 0o755)
        try:
            with tar("-C", into, "-xpof", "-", stdin=subprocess.PIPE) as child:
                assert child.stdin
                for part in self.parts:
                    child.stdin.write(part)
            if into != target:
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
        port.settimeout(None)
        self.is_relay = True
        self.link.sendall(b"HTTP/1.1 200 -\r\n\r\n")
        with port:
            back = threading.Thread(target=relay, args=(port, self.link), daemon=True)
            back.start()
            relay(self.link, port)
            back.join()

    def set_clock(self) -> object:
        """The time of day, after a pause."""
        return self._renewed("unix_ns")

    def renew_identity(self) -> object:
        """What a clone must not share with another one."""
        return self._renewed(*RENEWALS)

    def _renewed(self, *known: str) -> object:
        body = self._body(*known)
        if not ISOLATED:
            raise Refused(403, "no_machine", "this agent is a process of a host, not of a machine")
        done = [name for name in RENEWALS if name in body]
        for name in done:
            RENEWALS[name](body[name])
        return {"renewed": done}


def relay(source: socket.socket, target: socket.socket) -> None:
    """Moves bytes in one direction until their end."""
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


PROGRAM = r"/programs/([^/]+)"
ROUTES: list[tuple[str, dict[str, Callable[..., object]]]] = [
    ("/agent", {"GET": Link.get_agent}),
    ("/programs", {"GET": Link.list_programs}),
    (PROGRAM, {"GET": Link.get_program, "PUT": Link.start_program, "DELETE": Link.remove_program}),
    (PROGRAM + "/output", {"GET": Link.read_output}),
    (PROGRAM + "/input", {"PUT": Link.write_input}),
    (PROGRAM + "/signal", {"PUT": Link.signal_program}),
    (PROGRAM + "/terminal", {"PUT": Link.resize_terminal}),
    ("/stat/([^/]+)", {"GET": Link.stat_file}),
    ("/files/([^/]+)", {"GET": Link.read_file, "PUT": Link.write_file}),
    ("/folders/([^/]+)", {"GET": Link.read_folder, "PUT": Link.write_folder}),
    (r"/ports/(\d+)", {"GET": Link.connect_port}),
    ("/clock", {"PUT": Link.set_clock}),
    ("/identity", {"PUT": Link.renew_identity}),
]
GROUP = own_group()
PROGRAMS = Programs()
ISOLATED = True


def listen_at(path: str) -> socket.socket:
    """A unix socket for this user alone."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    listener = socket.socket(socket.AF_UNIX)
    before = os.umask(0o177)
    try:
        listener.bind(path)
    finally:
        os.umask(before)
    return listener


def end_with_input() -> None:
    """Ends this process when nobody holds the other end of its standard input."""
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def main(arguments: list[str]) -> None:
    """Serves until a signal, and ends every program then."""
    global ISOLATED
    if arguments[:1] == ["--unix"]:
        ISOLATED, listener = False, listen_at(arguments[1])
        if arguments[2:] == ["--stdin"]:
            threading.Thread(target=end_with_input, daemon=True).start()
    else:
        listener = socket.socket(socket.AF_VSOCK)
        listener.bind((socket.VMADDR_CID_ANY, int(arguments[1]) if arguments else PORT))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    listener.listen(128)
    print("agent: listening", flush=True)
    try:
        while True:
            link, address = listener.accept()
            if ISOLATED and address[0] != HOST_CID:  # a program in the guest
                link.close()
                continue
            Link(link).start()
    finally:
        PROGRAMS.end()


if __name__ == "__main__":
    main(sys.argv[1:])
