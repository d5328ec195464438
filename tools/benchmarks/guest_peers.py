"""What else runs programs and moves files for a host: QEMU's guest agent, and sshd.

Each is a process of this host, as our agent. `qemu-ga` listens on a unix socket; sshd on a port of
the loopback, which asyncssh and OpenSSH's own programs use over a connection that is open. A peer
whose program is not on this machine is left out.
"""

from __future__ import annotations

import asyncio
import base64
import getpass
import json
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import asyncssh

KEYWORDS: Final = ("-F", "none", "-o", "StrictHostKeyChecking=no", "-o", "LogLevel=ERROR")
ADDRESS: Final = "127.0.0.1"
SECONDS: Final = 10.0
PART: Final = 3 * 2**20  # bytes for one call of QEMU's agent, which takes no more than 48 MiB


@dataclass(frozen=True, slots=True)
class Peer:
    """Runs `true`, and copies the file `source` of the folder to and from `target`."""

    run: Callable[[], object]
    write: Callable[[], object]
    read: Callable[[], object]
    file_bytes: int = 32 * 10**6


def peers(folder: Path, stack: ExitStack) -> dict[str, Peer]:
    """Those that are on this machine, with their versions."""
    found: dict[str, Peer] = {}
    if program := shutil.which("qemu-ga", path="/usr/sbin:/usr/bin"):
        version = said(program, "--version").split()[-1]
        found[f"qemu-ga {version}"] = stack.enter_context(qemu_agent(program, folder))
    server = shutil.which("sshd", path="/usr/sbin:/usr/bin")
    if server and shutil.which("ssh"):
        version = said("ssh", "-V").split(",")[0].replace("_", " ").split()[1]
        port, key = stack.enter_context(ssh_server(server, folder))
        found[f"sshd {version}, asyncssh {asyncssh.__version__}"] = asyncssh_peer(
            folder, port, key, stack
        )
        found[f"sshd {version}, ssh and scp"] = openssh_peer(folder, port, key, stack)
    return found


def said(*command: str) -> str:
    """What a program says of itself, wherever."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.stdout.strip()


@contextmanager
def running(*command: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is ended."""
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            yield process
        finally:
            process.kill()  # qemu-ga may hang


def connected(family: int, address: Any) -> socket.socket:
    """A connection to a process that is about to listen."""
    for _ in range(1000):
        connection = socket.socket(family)
        with suppress(OSError):
            connection.connect(address)
            connection.settimeout(SECONDS)
            return connection
        connection.close()
        time.sleep(0.01)
    raise TimeoutError(f"nothing listens on {address}")


# QEMU's agent


@contextmanager
def qemu_agent(program: str, folder: Path) -> Iterator[Peer]:
    """The agent on a unix socket."""
    path = str(folder / "qemu-ga.socket")
    command = (program, "--method=unix-listen", f"--path={path}", f"--statedir={folder}")
    with (
        running(*command, f"--pidfile={folder}/qemu-ga.pid"),
        connected(socket.AF_UNIX, path) as link,
        link.makefile("rb") as answers,
    ):

        def ask(name: str, **arguments: object) -> Any:
            request = {"execute": f"guest-{name}", "arguments": arguments}
            link.sendall(json.dumps(request).encode() + b"\n")
            return json.loads(answers.readline())["return"]

        def run() -> None:
            pid = ask("exec", path="true", **{"capture-output": True})["pid"]
            while not ask("exec-status", pid=pid)["exited"]:
                pass

        def write() -> None:
            content = (folder / "source").read_bytes()
            handle = ask("file-open", path=str(folder / "target"), mode="w")
            for at in range(0, len(content), PART):
                part = base64.b64encode(content[at : at + PART]).decode()
                ask("file-write", handle=handle, **{"buf-b64": part})
            ask("file-close", handle=handle)

        def read() -> bytes:
            handle, content, is_whole = ask("file-open", path=str(folder / "source")), b"", False
            while not is_whole:
                part = ask("file-read", handle=handle, count=PART)
                content, is_whole = content + base64.b64decode(part["buf-b64"]), part["eof"]
            ask("file-close", handle=handle)
            return content

        yield Peer(run, write, read)


# sshd


@contextmanager
def ssh_server(program: str, folder: Path) -> Iterator[tuple[int, str]]:
    """Its port, and the file of a key that it accepts."""
    key = str(folder / "key")
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    Path("/run/sshd").mkdir(exist_ok=True)  # where sshd separates its rights
    with socket.create_server((ADDRESS, 0)) as free:
        port = free.getsockname()[1]
    options = (
        f"HostKey={key}", f"AuthorizedKeysFile={key}.pub", "StrictModes=no", "UsePAM=no",
        "PidFile=none", f"SetEnv=HOME={folder}",  # where no shell finds commands of its user
        "Subsystem=sftp internal-sftp", "LogLevel=ERROR",
    )  # fmt: skip
    words = [word for option in options for word in ("-o", option)]
    command = (program, "-D", "-e", "-f", "/dev/null", "-p", str(port))
    with running(*command, "-o", f"ListenAddress={ADDRESS}", *words):
        connected(socket.AF_INET, (ADDRESS, port)).close()
        yield port, key


def asyncssh_peer(folder: Path, port: int, key: str, stack: ExitStack) -> Peer:
    """asyncssh over a connection that is open."""

    async def opened() -> tuple[asyncssh.SSHClientConnection, asyncssh.SFTPClient]:
        made = await asyncssh.connect(
            ADDRESS, port, known_hosts=None, client_keys=[key], config=None
        )
        return made, await made.start_sftp_client()

    runner = stack.enter_context(asyncio.Runner())
    connection, files = runner.run(opened())
    stack.callback(lambda: runner.run(connection.wait_closed()))
    stack.callback(connection.close)
    source, target = str(folder / "source"), str(folder / "target")
    return Peer(
        lambda: runner.run(connection.run("true")),
        lambda: runner.run(files.put(source, target)),
        lambda: runner.run(files.get(source, target)),
    )


def openssh_peer(folder: Path, port: int, key: str, stack: ExitStack) -> Peer:
    """OpenSSH's own programs, which share a connection that is open."""
    host, control = f"{getpass.getuser()}@{ADDRESS}", str(folder / "control")
    words = [*KEYWORDS, "-i", key, "-o", "UserKnownHostsFile=/dev/null", "-o", f"Port={port}"]
    stack.enter_context(running("ssh", *words, "-M", "-S", control, "-N", host))
    connected(socket.AF_UNIX, control).close()
    words += ["-o", f"ControlPath={control}"]
    source, target = str(folder / "source"), str(folder / "target")

    def call(*command: str) -> None:
        subprocess.run(command, check=True, capture_output=True)

    return Peer(
        lambda: call("ssh", *words, host, "true"),
        lambda: call("scp", "-q", *words, source, f"{host}:{target}"),
        lambda: call("scp", "-q", *words, f"{host}:{source}", target),
    )
