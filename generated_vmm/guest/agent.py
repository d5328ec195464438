"""The agent of a guest: runs programs, moves files and renews clones, for the host alone.

    agent.py [PORT]  listens on a vsock port, by default 1024, for the host
    agent.py PATH    listens on a unix socket of this host, where nothing is isolated, until its
                     standard input ends

One file for Python 3.9 or newer that imports only what Debian's python3-minimal has: no `json`,
`shutil`, `tarfile`, `resource`, `termios` or `ctypes`. openapi/guest.yaml describes the API.
"""

from __future__ import annotations

import _thread
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
from itertools import chain, islice
from typing import Any, ClassVar
from urllib.parse import parse_qsl, unquote, unquote_to_bytes

VERSION = 1
PORT = "1024"
INSTANCE = os.urandom(16).hex()  # of this process, which knows no programs of another one
NAMES = "guest-"  # of control groups
GROUP_NAME = f"{NAMES}{INSTANCE[:8]}-"
HOST_CID = 2
TIOCSWINSZ, F_SETPIPE_SZ = 0x5414, 1031
RNDADDENTROPY, RNDRESEEDCRNG = 0x40085203, 0x5207
ULIMITS = {"cpu_seconds": "t", "file_kib": "f", "memory_kib": "v", "open_files": "n"}

PART = 256 * 1024  # bytes read or written at once
REPLAY = 1024 * 1024  # bytes of output that can be read again
MOST_FRAMES = 4096  # pieces of output, for a program that writes single bytes
ARGUMENTS, ARGUMENT = 10, 100  # that a host is told, and the characters of each
ENDED_BYTES, ENDED_PROGRAMS = 16 * 1024 * 1024, 256  # of ended programs; the oldest go first
FOREVER = float("inf")
LONGEST_POLL = 86_400.0  # seconds: epoll takes milliseconds as an int
HELD_SECONDS = 60.0  # that a guest stands still at most; while its machine is paused none pass


class Refused(Exception):
    """A request that is not carried out: a status, and the reason."""


def fault_of(error: Exception) -> tuple[int, dict[str, object]]:
    """Status and body of the response to a request that failed."""
    if isinstance(error, Refused):
        status, reason = error.args
        return status, {"fault_message": reason, "version": VERSION}
    if isinstance(error, OSError):
        text = f"{error.strerror}: {os.fsdecode(error.filename or '')}".rstrip(": ")
        return 422, {"fault_message": text, "errno": error.errno}
    return 400, {"fault_message": f"{type(error).__name__}: {error}"}


# JSON

TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|\b(?:true|false|null)\b')
WORDS = {"true": "True", "false": "False", "null": "None"}
TO_ESCAPE = re.compile(r'["\\\x00-\x1f]')


def read_json(content: bytes) -> Any:
    """The value of a JSON text, whose strings are also strings of Python."""
    text = TOKEN.sub(lambda found: WORDS.get(found[0], found[0]), content.decode())
    return ast.literal_eval(text.strip())


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
    mount = re.search(r" (\S+) cgroup2 ", content_of("/proc/mounts"))
    own = re.search(r"(?m)^0::(.*)$", content_of("/proc/self/cgroup"))
    return (mount[1] + own[1]).rstrip("/") if mount and own else ""


def content_of(path: str) -> str:
    """What a file of the kernel says."""
    with open(path) as file:
        return file.read()


def put(path: str, text: str) -> None:
    """Writes to an existing file of the kernel."""
    with open(path, "r+") as file:
        file.write(text)


def make_group() -> str:
    """The folder of a control group for one program; empty without cgroup 2 or the right to it.

    A thread enters the group, and what the thread starts is born in it. A process that enters a
    group waits for the RCU of the kernel, often 10 ms; a thread in a threaded group does not.
    """
    path = f"{HOME}/{GROUP_NAME}{os.urandom(8).hex()}" if HOME else ""
    try:
        os.mkdir(path)
        put(f"{path}/cgroup.type", "threaded")
    except OSError:
        is_gone(path)
        return ""
    return path


@contextlib.contextmanager
def entered(group: str) -> Iterator[None]:
    """A block in which this thread is in a group, if there is one.

    Its way back is open before: one that is left in it would end with it.
    """
    if not group:
        yield
        return
    with open(f"{HOME}/cgroup.threads", "r+") as back:
        put(f"{group}/cgroup.threads", "0")
        try:
            yield
        finally:
            back.write("0")


def is_gone(group: str) -> bool:
    """Removes a group, unless it has processes."""
    try:
        os.rmdir(group)
    except OSError as error:
        return error.errno != errno.EBUSY
    return True


def end_group(group: str) -> None:
    """Ends the processes of a group by the numbers of their threads, and removes it."""
    with contextlib.suppress(OSError):  # nothing can fork then; SIGKILL ends frozen ones
        put(f"{group}/cgroup.freeze", "1")
    deadline = time.monotonic() + 5
    while not is_gone(group) and time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            for number in content_of(f"{group}/cgroup.threads").split():
                os.kill(int(number), signal.SIGKILL)
        time.sleep(0.0002)


def end_groups(name: str) -> None:
    """Ends what is in the groups whose names begin so: also what ended programs have left."""
    for each in os.scandir(HOME) if HOME else ():
        if each.name.startswith(name):
            end_group(each.path)


def freeze(group: str, wanted: bool) -> None:
    """Makes the processes of a group stand still and waits until they do, or lets them run."""
    deadline = time.monotonic() + 5
    try:
        put(f"{group}/cgroup.freeze", "1" if wanted else "0")
        while wanted and "frozen 1" not in content_of(f"{group}/cgroup.events"):
            if time.monotonic() > deadline:
                raise OSError(errno.EBUSY, "a process does not stand still", group)
            time.sleep(0.001)
    except OSError:
        if os.path.exists(group):  # else it has ended
            raise


def groups_beside(own: str) -> list[str]:
    """The control groups of everything else in this guest, except that of process 1."""
    found, folder = [], f"{own}/agent"
    while os.path.exists(os.path.join(parent := os.path.dirname(folder), "cgroup.procs")):
        beside = (each.path for each in os.scandir(parent) if each.is_dir())
        found += [path for path in beside if path != folder and not path.endswith("/init.scope")]
        folder = parent
    return found


# Programs


def as_user(name: str) -> tuple[dict[str, str], dict[str, Any]]:
    """The variables of a user, and the options of `subprocess` for its programs."""
    user = pwd.getpwnam(name)
    groups = os.getgrouplist(name, user.pw_gid)
    variables = {"HOME": user.pw_dir, "USER": name, "LOGNAME": name}
    return variables, {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": groups}


class Program:
    """A program with the last bytes of its output, and the thread that starts and follows it.

    While output that no host has acknowledged fills the replay, nobody reads more of it, and the
    program waits. The fields change under `news`, on which requests wait.
    """

    def __init__(self, name: str, spec: dict[str, Any], given: str = "") -> None:
        self.name, self.spec, self.terminal = name, spec, spec.get("terminal")
        self.news = threading.Condition()
        self.outlets: dict[int, bool] = {}  # whether it is of standard error
        self.frames: list[tuple[int, bool, bytes]] = []  # each with its position
        self.end = self.acknowledged = self.input_bytes = 0
        self.input: int | None = None
        self.returncode: int | None = None
        self.timed_out = self.is_full = False
        self.group, self.ends = make_group(), contextlib.ExitStack()
        try:
            self.ends.callback(is_gone, self.group)
            self.child = self.ends.enter_context(self._start(given))
            self.ends.callback(self.child.kill)  # nothing happens after its end
            self.events = self._watch()
            _thread.start_new_thread(self._follow, ())
        except BaseException:
            end_group(self.group)
            self.ends.close()
            raise

    def _start(self, given: str) -> subprocess.Popen[bytes]:
        """Starts the program; a shell becomes it if it has limits or a terminal."""
        spec, args, out = self.spec, self.spec["args"], subprocess.PIPE
        into = out if spec.get("stdin") else subprocess.DEVNULL
        limits = (spec.get("limits") or {}).items()
        steps = [f"ulimit -{ULIMITS[name]} {most:d}" for name, most in limits]
        environment, options = as_user(spec["user"]) if spec.get("user") else ({}, {})
        if self.terminal:
            into = out = self._open_terminal(options.get("user", -1))
            steps.insert(0, f"exec 9<>{os.ttyname(out)} {'' if given else '<&9'} >&9 2>&9 9>&-")
        if given:
            into = self._open_input(given)
        if steps:
            args = ["/bin/sh", "-c", " && ".join([*steps, 'exec "$@"']), "sh", *args]
        with entered(self.group):
            return subprocess.Popen(
                args, 0, None, into, out, out, cwd=spec.get("cwd"), start_new_session=True,
                env={**os.environ, **environment, **(spec.get("env") or {})}, **options,
            )  # fmt: skip

    def _open_input(self, given: str) -> int:
        """Opens a file with all of the input, which ends with the program."""
        file = os.memfd_create("input")
        self.ends.callback(os.close, file)
        os.pwrite(file, base64.urlsafe_b64decode(given), 0)
        return file

    def _open_terminal(self, user: int) -> int:
        """Opens a terminal, and returns the end of the program, which stays open here.

        Else there would be moments without any, which end the terminal.
        """
        outer, inner = os.openpty()
        self.outlets, self.input = {outer: False}, os.dup(outer)
        for end in (outer, inner, self.input):
            self.ends.callback(os.close, end)
        self.resize(self.spec["terminal"])
        os.fchown(inner, user, -1)
        return inner

    def _watch(self) -> select.epoll:
        """Each event is told once, until it is asked for again."""
        if (child := self.child).stdout and child.stderr:
            self.outlets = {child.stdout.fileno(): False, child.stderr.fileno(): True}
            self.input = child.stdin.fileno() if child.stdin else None
        events, exited = self.ends.enter_context(select.epoll()), os.pidfd_open(child.pid)
        self.ends.callback(os.close, exited)
        for end in filter(None, (exited, *self.outlets, self.input)):
            os.set_blocking(end, False)
            with contextlib.suppress(OSError):  # no pipe
                fcntl.fcntl(end, F_SETPIPE_SZ, PART)
            events.register(end, select.EPOLLIN | select.EPOLLONESHOT)
        return events

    def _follow(self) -> None:
        """Moves bytes until the end; then what others write to pipes is read and dropped.

        So they do not wait for ever.
        """
        ends_at = time.monotonic() + (self.spec.get("timeout_ms") or FOREVER) / 1000
        with self.ends:
            while self.returncode is None or self.outlets:
                left = max(0.0, ends_at - time.monotonic())
                happened = {end for end, _ in self.events.poll(min(left, LONGEST_POLL))}
                with self.news:
                    for outlet in happened & self.outlets.keys():
                        self._read(outlet)
                    if self.returncode is None and self.child.poll() is not None:
                        self._finish()
                    self._flow()
                    is_late = self.returncode is None and time.monotonic() >= ends_at
                    self.timed_out |= is_late
                    self.news.notify_all()
                if is_late:
                    ends_at = FOREVER
                    self.signal(signal.SIGKILL)

    def _read(self, outlet: int) -> None:
        """Takes what an outlet has now."""
        with contextlib.suppress(BlockingIOError):
            if not (data := os.read(outlet, PART)):
                del self.outlets[outlet]
            elif self.returncode is None:
                self.frames.append((self.end, self.outlets[outlet], data))
                self.end += len(data)

    def _finish(self) -> None:
        """The program has ended: what there is now is the rest of its output."""
        for _ in range(32):  # a pipe needs one turn
            for outlet in list(self.outlets):
                self._read(outlet)
        if self.terminal:
            self.outlets.clear()
        self._close_input()
        self.returncode = self.child.returncode

    def _close_input(self) -> None:
        if self.input is not None and self.child.stdin:
            self.child.stdin.close()
        self.input = None

    def _flow(self) -> None:
        """Drops output that was read, and reads more unless that which was not fills the replay."""
        is_long = len(self.frames) > MOST_FRAMES
        oldest = min(self.acknowledged, self.end if is_long else self.end - REPLAY)
        while len(self.frames) > 1 and self.frames[1][0] <= oldest:
            del self.frames[0]
        self.is_full = self.end - self.acknowledged >= REPLAY or len(self.frames) > MOST_FRAMES
        for outlet in self.outlets if not self.is_full or self.returncode is not None else ():
            self.events.modify(outlet, select.EPOLLIN | select.EPOLLONESHOT)

    # For hosts, from any thread.

    def view(self) -> dict[str, object]:
        """The state of the program."""
        return {
            "id": self.name, "pid": self.child.pid,
            "args": [word[:ARGUMENT] for word in self.spec["args"][:ARGUMENTS]],
            "returncode": self.returncode, "timed_out": self.timed_out,
            "output_bytes": self.end, "input_bytes": self.input_bytes,
            "takes_input": self.input is not None,
            "is_unread": self.is_full and not self.acknowledged and self.returncode is None,
        }  # fmt: skip

    def exchange(self, body: Any, seconds: float, host: socket.socket | None = None) -> Any:
        """Takes input, and returns the output from an offset on: all before it is acknowledged.

        Waits until some input is taken, or there is output after the offset, or for the end. It
        takes no input of a host that has gone: what that host writes next may have come before.
        """
        with self.news:
            self.acknowledged = max(self.acknowledged, min(body.get("offset", 0), self.end))
            self._flow()
            self.news.wait_for(lambda: self._has_news(body, host), seconds)
            return self._output(body.get("offset", self.end))

    def _has_news(self, body: dict[str, Any], host: socket.socket | None) -> bool:
        if "input_offset" in body:
            return self._takes(body, host)
        return self.returncode is not None or self.end > body.get("offset", self.end)

    def _output(self, offset: int) -> dict[str, object]:
        """The output from a position on, at most `PART` bytes."""
        at = begin = max(offset, self.frames[0][0] if self.frames else 0)
        found: list[object] = []
        for position, is_error, data in self.frames:
            if part := data[max(0, at - position) :][: begin + PART - at]:
                text, lost = base64.urlsafe_b64encode(part).decode(), at - offset
                found.append({"is_error": is_error, "data": text, "lost_bytes": lost})
                offset = at = at + len(part)
        return {"frames": found, "program": self.view()}

    def _takes(self, body: dict[str, Any], host: socket.socket | None) -> bool:
        """Writes what the program takes now; bytes that it has are not written again.

        False if the program takes nothing before the next event.
        """
        if self.input is None or (host and has_gone(host)):
            return True
        rest = base64.urlsafe_b64decode(body["data"])[self.input_bytes - body["input_offset"] :]
        end = b"\x04\x04" if body.get("close") and self.terminal else b""  # the first ends a line
        try:
            count = os.write(self.input, rest + end)
        except BlockingIOError:
            self.events.modify(self.input, select.EPOLLOUT | select.EPOLLONESHOT)
            return False
        except OSError:  # the program reads no more
            self._close_input()
            return True
        self.input_bytes += min(count, len(rest))
        if body.get("close") and count == len(rest + end):
            self._close_input()
        return True

    def resize(self, size: dict[str, int]) -> None:
        """Sets the size of the terminal; nothing happens after the end."""
        with self.news:
            for outlet in self.outlets:  # none after the end
                fcntl.ioctl(outlet, TIOCSWINSZ, struct.pack("HH4x", size["rows"], size["columns"]))

    def signal(self, number: int) -> None:
        """Signals the process group; SIGKILL ends every process that the program has started."""
        with self.news:
            if self.child.poll() is None:  # else another group may have its number
                os.killpg(self.child.pid, number)
        if number == signal.SIGKILL:
            end_group(self.group)


# Files


@contextlib.contextmanager
def replacing(path: bytes) -> Iterator[bytes]:
    """A name for what takes the place of a path when it is whole; nobody else reads it before."""
    target = os.path.realpath(path)
    private = os.path.join(os.path.dirname(target), b".guest-" + os.urandom(8).hex().encode())
    try:
        os.mkdir(private, 0o700)
        yield private + b"/new"
        os.rename(private + b"/new", target)
        os.rmdir(private)
    except BaseException as error:
        subprocess.run(["rm", "-rf", private])
        if isinstance(error, OSError):
            error.filename = path  # the one that the host knows
        raise


def replace_file(path: bytes, parts: Iterable[bytes], mode: str = "", owner: str = "") -> None:
    """Writes a file as a whole, by default with the mode and owner of the one before."""
    before = os.stat(path) if os.path.exists(path) else None
    if before and not stat.S_ISREG(before.st_mode):
        number = errno.EISDIR if stat.S_ISDIR(before.st_mode) else errno.EINVAL
        raise OSError(number, os.strerror(number))
    ids, bits = (-1, -1), 0o644
    if before:
        ids, bits = (before.st_uid, before.st_gid), stat.S_IMODE(before.st_mode)
    if owner:
        user = pwd.getpwnam(owner)
        ids = user.pw_uid, user.pw_gid
    with replacing(path) as new, open(new, "xb") as file:
        file.writelines(parts)
        file.flush()  # a later write clears bits of the mode, as fchown does
        os.fchown(file.fileno(), *ids)
        os.fchmod(file.fileno(), int(mode, 8) if mode else bits)


@contextlib.contextmanager
def tar(folder: bytes, *options: str) -> Iterator[Any]:
    """The guest's own tar in a folder; raises OSError with what it said if it fails."""
    pipe, command = subprocess.PIPE, ["tar", "-C", os.fsdecode(folder), *options]
    with open(os.memfd_create("said"), "rb") as said:
        child = subprocess.Popen(command, 0, None, pipe, pipe, said)
        with contextlib.suppress(BrokenPipeError), child:  # it has failed, and says why
            yield child
        if child.returncode:
            raise OSError(errno.EIO, os.pread(said.fileno(), 500, 0).decode(errors="replace"))


# The machine

HOST_KEYS = """
cd /etc/ssh && rm -f ssh_host_*_key ssh_host_*_key.pub && ssh-keygen -A
systemctl --no-block try-restart ssh.service sshd.service
"""  # A server that is held cannot end before it runs again: nobody waits for its restart.


def reseed(seed: str) -> None:
    """Gives the kernel a secret that no other clone has, and lets its generator use it at once."""
    data = base64.urlsafe_b64decode(seed)
    with open("/dev/random", "wb", 0) as device:
        fcntl.ioctl(device, RNDADDENTROPY, struct.pack("ii", len(data) * 8, len(data)) + data)
        fcntl.ioctl(device, RNDRESEEDCRNG)


def set_hostname(name: str) -> None:
    """The name of the machine, now and after a reboot."""
    socket.sethostname(name)
    replace_file(b"/etc/hostname", [f"{name}\n".encode()])


RENEWALS: dict[str, Callable[[Any], object]] = {  # the seed first: later steps need randomness
    "seed": reseed,
    "unix_ns": lambda nanoseconds: time.clock_settime_ns(time.CLOCK_REALTIME, nanoseconds),
    "machine_id": lambda name: replace_file(b"/etc/machine-id", [f"{name}\n".encode()]),
    "hostname": set_hostname,
    "host_keys": lambda _: subprocess.run(["/bin/sh", "-c", HOST_KEYS], capture_output=True),
}

# Requests

METHODS = "GET", "PUT", "PATCH", "DELETE"
SPEC = "args", "env", "cwd", "user", "limits", "terminal", "stdin", "timeout_ms", "agent"
EXCHANGE = "offset", "input_offset", "data", "close", "signal", "terminal"


def require_known(members: Iterable[str], known: Iterable[str]) -> None:
    """Raises `Refused` with the names that only a newer version knows."""
    if unknown := sorted(set(members) - set(known)):
        raise Refused(501, f"version {VERSION} does not know {', '.join(unknown)}")


def has_gone(host: socket.socket) -> bool:
    """Whether the other end of a connection is closed."""
    poll = select.poll()
    poll.register(host, select.POLLRDHUP)
    return bool(poll.poll(0))


def parts_of(file: Any, size: int) -> Iterator[bytes]:
    """The next bytes in parts. Raises ConnectionResetError if they are cut off."""
    while size > 0:
        if not (data := file.read(min(PART, size))):
            raise ConnectionResetError(errno.ECONNRESET, "the request is cut off")
        size -= len(data)
        yield data


class Request:
    """The one request of a connection, and the response.

    A method carries out each operation, as `get_agent` for GET /agent. It gets the parts of the
    path, the body, which is JSON or bytes in parts, and the parameters of the query by name. It
    returns a value for JSON, bytes in parts, or the connection that this one leads to.

    All requests have the same programs, each under the id that its host chose. While they are held,
    everything but the agent stands still, and nothing starts. So a clone of this guest does nothing
    before its identity is renewed.
    """

    lock = threading.Lock()
    known: ClassVar[dict[str, Program]] = {}
    held_until = 0.0  # nothing is held at 0

    def __init__(self, link: socket.socket) -> None:
        self.link = link

    def serve(self) -> None:
        """Carries the request out, unless it is cut off before."""
        with contextlib.suppress(OSError, ValueError), self.link, self.link.makefile("rwb") as file:
            method, target, _ = file.readline().decode("ascii").split(" ")
            lines = iter(file.readline, b"\r\n")  # ValueError at the end of the stream
            self.headers = dict(line.decode("ascii").lower().split(":", 1) for line in lines)
            self.parts = parts_of(file, int(self.headers.get("content-length", "0")))
            if "transfer-encoding" not in self.headers:  # a body whose end is not told
                self._answer(file, method, target)
                file.flush()
            for _ in self.parts:  # of a body that was refused
                pass

    def _answer(self, file: Any, method: str, target: str) -> None:
        status, value = 200, None
        try:
            value = self._call(method, target)
            parts = value if isinstance(value, Iterator) else iter([to_json(value).encode()])
            begun = list(islice(parts, 1))  # what is wrong comes before the response
        except Exception as error:
            status, fault = fault_of(error)
            begun, parts = [to_json(fault).encode()], iter(())
        file.write(b"HTTP/1.1 %d -\r\nConnection: close\r\n" % status)
        if isinstance(value, socket.socket):
            file.write(b"Content-Length: 0\r\n\r\n")
            file.flush()
            return join(value, self.link)
        file.write(b"Transfer-Encoding: chunked\r\n\r\n")
        for part in chain(begun, parts, [b""]):
            file.writelines((b"%x\r\n" % len(part), part, b"\r\n"))  # an empty one is the last

    def _call(self, method: str, target: str) -> object:
        path, _, query = target.partition("?")
        resource, *names = path[1:].split("/")
        operation = getattr(self, f"{method}_{resource}".lower(), None)
        if operation is None or method not in METHODS:
            raise Refused(501, f"version {VERSION} does not know {method} {path}")
        parameters = dict(parse_qsl(query))
        require_known(parameters, operation.__kwdefaults__ or ())
        bodies = [self._body()] if "content-length" in self.headers else []
        return operation(*map(unquote, names), *bodies, **parameters)

    def _body(self) -> Any:
        is_json = "application/json" in self.headers.get("content-type", "")
        return read_json(b"".join(self.parts)) if is_json else self.parts

    def get_agent(self) -> object:
        """Which agent this is."""
        return {"version": VERSION, "instance": INSTANCE, "isolated": ISOLATED}

    def get_programs(self) -> object:
        """The programs that are known."""
        return [program.view() for program in list(self.known.values())]

    def put_programs(self, name: str, spec: dict[str, Any], *, wait_ms: str = "0") -> object:
        """Starts a program once, however often it is asked to, unless the host has gone.

        What a host has given up may come after its request to end the program.
        """
        given = spec.pop("input", "")
        require_known(spec, SPEC)
        require_known(spec.get("limits") or (), ULIMITS)
        with self.lock:
            if has_gone(self.link):
                raise ConnectionResetError(errno.ECONNRESET, "the host has gone")
            if name not in self.known:
                self._make_room(spec)
                self.known[name] = Program(name, spec, given)
            elif self.known[name].spec != spec:
                raise Refused(409, f"{name} is the id of another program")
        return self.known[name].exchange({"offset": 0}, int(wait_ms) / 1000)

    def _make_room(self, spec: dict[str, Any]) -> None:
        """Forgets the oldest programs that have ended. Raises `Refused` if nothing starts."""
        if self.held_until:
            raise Refused(503, "nothing starts before the programs are released")
        if spec.get("agent", INSTANCE) != INSTANCE:
            raise Refused(410, "the agent was restarted; the program may have run before")
        ended = [one for one in self.known.values() if one.returncode is not None]
        sizes = [one.end - one.frames[0][0] if one.frames else 0 for one in ended]
        while len(ended) > ENDED_PROGRAMS or sum(sizes) > ENDED_BYTES:
            sizes.pop(0)
            is_gone(self.known.pop(ended.pop(0).name).group)

    def patch_programs(self, name: str, body: dict[str, Any], *, wait_ms: str = "0") -> object:
        """Whatever a host has for a program, and its news."""
        require_known(body, EXCHANGE)
        with self.lock:  # it may start in this moment
            program = self.known.get(name)
        if program is None:
            raise Refused(404, f"{name}: no such program")
        if "signal" in body:
            program.signal(body["signal"])
        if "terminal" in body:
            program.resize(body["terminal"])
        return program.exchange(body, int(wait_ms) / 1000, self.link)

    def get_stat(self, path: str) -> object:
        """What a path leads to."""
        found = os.stat(unquote_to_bytes(path))
        kinds = {stat.S_IFREG: "file", stat.S_IFDIR: "folder"}
        return {
            "kind": kinds.get(stat.S_IFMT(found.st_mode), "other"), "size": found.st_size,
            "mode": stat.S_IMODE(found.st_mode), "uid": found.st_uid, "gid": found.st_gid,
            "modified_ns": found.st_mtime_ns,
        }  # fmt: skip

    def get_files(self, path: str) -> Iterator[bytes]:
        """The content of a file. A pipe would wait for another process, and take its bytes."""
        name = unquote_to_bytes(path)
        if stat.S_ISFIFO(os.stat(name).st_mode):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), name)
        with open(name, "rb") as file:
            yield from iter(lambda: file.read(PART), b"")

    def put_files(
        self, path: str, parts: Iterable[bytes], *, mode: str = "", owner: str = ""
    ) -> None:
        """Replaces a file as a whole."""
        replace_file(unquote_to_bytes(path), parts, mode, owner)

    def get_folders(self, path: str) -> Iterator[bytes]:
        """A folder as a tar stream, which is cut off if tar fails."""
        os.listdir(unquote_to_bytes(path))  # raises what is wrong with it
        with tar(unquote_to_bytes(path), "-cf", "-", ".") as child:
            yield from iter(lambda: child.stdout.read(PART), b"")

    def put_folders(self, path: str, parts: Iterable[bytes]) -> None:
        """Makes a folder of a tar stream, as a whole or not at all."""
        folder = unquote_to_bytes(path)
        with replacing(folder) as new:
            os.mkdir(new, 0o755)
            with tar(new, "-xpof", "-") as child:
                child.stdin.writelines(parts)
            with contextlib.suppress(FileNotFoundError):  # an empty one keeps owner and mode
                before = os.stat(folder)
                os.chown(new, before.st_uid, before.st_gid)
                os.chmod(new, stat.S_IMODE(before.st_mode))

    def get_ports(self, number: str) -> socket.socket:
        """A connection to a port of the guest's own address."""
        with contextlib.suppress(OSError):  # the guest may have no IPv6
            return socket.create_connection(("::1", int(number)))
        return socket.create_connection(("127.0.0.1", int(number)))

    def put_identity(self, members: dict[str, Any]) -> None:
        """Replaces what a clone must not share with another one, or the time of day alone.

        With `release`, everything runs again afterwards, and not after a failure; it must have
        stood still since the hold.
        """
        require_known(members, (*RENEWALS, "release"))
        if not ISOLATED:
            raise Refused(403, "this agent is a process of a host, not of a machine")
        with self.lock:
            if members.get("release") and not self.held_until:
                raise Refused(409, "the programs are not held any more")
            for name in RENEWALS:
                if members.get(name):
                    RENEWALS[name](members[name])
            if members.get("release"):
                self.stand_still(False)

    def put_hold(self) -> None:
        """Makes everything but the agent stand still, until it is released or for some time."""
        if ISOLATED and not HOME:
            raise Refused(403, "nothing can be held without cgroup 2")
        with self.lock:
            type(self).held_until = time.monotonic() + HELD_SECONDS
            try:
                self.stand_still(True)
            except BaseException:
                self.stand_still(False)
                raise

    def delete_hold(self) -> None:
        """Lets everything run again."""
        with self.lock:
            self.stand_still(False)

    @classmethod
    def stand_still(cls, wanted: bool) -> None:
        """Freezes everything but the agent, or lets it run; of a host, its own programs alone."""
        own = [program.group for program in cls.known.values()]
        for group in groups_beside(HOME) if ISOLATED else own:
            freeze(group, wanted)
        if not wanted:
            cls.held_until = 0.0

    @classmethod
    def expire(cls) -> None:
        """Lets everything run again after some time."""
        with cls.lock, contextlib.suppress(OSError):  # the next turn tries again
            if 0 < cls.held_until <= time.monotonic():
                cls.stand_still(False)


def join(port: socket.socket, link: socket.socket) -> None:
    """Moves bytes both ways between two connections until both directions end."""
    with port:
        # vsock devices do not pass on half an end
        back = threading.Thread(target=relay, args=(port, link, socket.SHUT_RDWR), daemon=True)
        back.start()
        relay(link, port, socket.SHUT_WR)
        back.join()


def relay(source: socket.socket, target: socket.socket, end: int) -> None:
    """Moves bytes in one direction until their end, which ends the target in this way."""
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(end)


HOME = own_group()
ISOLATED = False  # before `main` knows where it listens, and wherever this is only imported


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
    listener.setblocking(False)  # a host may have gone before it is accepted
    return listener


def accept(listener: socket.socket) -> None:
    """Answers the next host in a thread of its own."""
    try:
        link, address = listener.accept()
    except OSError:  # no descriptor is left for it
        return time.sleep(0.1)
    if ISOLATED and address[0] != HOST_CID:  # a program in the guest
        return link.close()
    try:
        _thread.start_new_thread(Request(link).serve, ())
    except RuntimeError:  # no thread is left for it
        link.close()


def main(where: str) -> None:
    """Serves until a signal, or the end of its input, and ends every program then."""
    global ISOLATED
    stopped, stopping = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(stopping)  # whichever thread gets the signal
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    listener = listener_for(where)
    ISOLATED = listener.family == socket.AF_VSOCK
    if not os.access(f"{HOME or '/none'}/cgroup.threads", os.W_OK):
        print("agent: no cgroup 2: a kill reaches one process group alone", file=sys.stderr)
    if ISOLATED:
        end_groups(NAMES)  # of an agent before this one
    Request.stand_still(False)
    print("agent: listening", flush=True)
    ends: list[Any] = [listener, stopped] if where.isdecimal() else [listener, stopped, 0]
    while (ready := select.select(ends, [], [], 1.0)[0]) in ([], [listener]):
        if ready:
            accept(listener)
        if Request.held_until:
            Request.expire()
    Request.lock.acquire()  # nothing starts any more
    for program in Request.known.values():
        program.signal(signal.SIGKILL)
    end_groups(GROUP_NAME)


if __name__ == "__main__":
    main(*sys.argv[1:] or [PORT])
