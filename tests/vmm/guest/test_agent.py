"""The agent's own rules, asked in the bytes of HTTP; what it does to a machine, in a folder."""

import ast
import base64
import contextlib
import fcntl
import json
import os
import re
import socket
import stat
import subprocess
import sys
import threading
from http.client import HTTPResponse
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from generated_vmm.guest import Guest, GuestAgentError, agent
from tests.vmm.guest.conftest import Agent, Requests

# All modules of Debian's python3-minimal (bookworm) that the agent may be written with.
MINIMAL = {
    "__future__", "_thread", "ast", "base64", "bisect", "collections.abc", "contextlib", "errno",
    "fcntl", "itertools", "os", "pwd", "re", "select", "signal", "socket", "stat", "struct",
    "subprocess", "sys", "threading", "time", "typing", "urllib.parse",
}  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def ask(path: Path, request: bytes) -> tuple[int, object]:
    """Status and JSON of the response to bytes."""
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(str(path))
        link.sendall(request)
        response = HTTPResponse(link)
        response.begin()
        return response.status, json.loads(response.read())


def put(path: str, body: bytes) -> bytes:
    head = b"PUT %s HTTP/1.1\r\nContent-Type: application/json\r\n" % path.encode()
    return b"%sContent-Length: %d\r\n\r\n%s" % (head, len(body), body)


def patch(path: str, body: bytes) -> bytes:
    return put(path, body).replace(b"PUT", b"PATCH", 1)


def test_it_imports_what_python3_minimal_has() -> None:
    found = set()
    for node in ast.walk(ast.parse(Path(agent.__file__).read_text())):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    assert found <= MINIMAL


def test_it_does_what_the_description_says_and_nothing_else() -> None:
    described = YAML(typ="safe", pure=True).load(Path("openapi/guest.yaml"))
    asked = {
        f"{method}_{path.split('/')[1]}"
        for path, operations in described["paths"].items()
        for method in operations.keys() - {"parameters"}
    }
    found = {name for name in vars(agent.Request) if re.match("(get|put|patch|delete)_", name)}
    assert found == asked
    parameters = re.findall(r"name: (\w+), in: query", Path("openapi/guest.yaml").read_text())
    known = (getattr(agent.Request, name).__kwdefaults__ or {} for name in asked)
    assert set(parameters) == {name for each in known for name in each}
    members = {
        name: set(schema.get("properties", ()))
        for name, schema in described["components"]["schemas"].items()
    }
    assert members["ProgramSpec"] == {*agent.SPEC, "input"}
    assert members["Exchange"] == set(agent.EXCHANGE)
    assert members["Limits"] == set(agent.ULIMITS)
    assert members["Identity"] == {*agent.RENEWALS, "release"}


@given(JSON)
def test_its_json_is_that_of_everyone(value: object) -> None:
    assert json.loads(agent.to_json(value)) == value
    assert agent.read_json(json.dumps(value, ensure_ascii=False, indent=1).encode()) == value


@pytest.mark.parametrize("text", [b"", b"{", b"nul", b"\xff", b"[" * 5000, b"x()"])
def test_what_is_no_json_is_refused(text: bytes) -> None:
    with pytest.raises((ValueError, SyntaxError, MemoryError, RecursionError)):
        agent.read_json(text)


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /nothing HTTP/1.1\r\n\r\n", 501),
        (b"DELETE /agent HTTP/1.1\r\n\r\n", 501),
        (b" /body HTTP/1.1\r\n\r\n", 501),
        (b"GET /agent?colour=1 HTTP/1.1\r\n\r\n", 501),
        (put("/programs/x", b'{"args": ["true"], "colour": 1}'), 501),
        (put("/programs/x", b'{"args": ["true"], "limits": {"love": 1}}'), 501),
        (put("/programs/x", b"{}"), 400),
        (put("/programs/x", b"[]"), 400),
        (put("/programs/x", b"no json"), 400),
        (patch("/programs/x", b"{}"), 404),
        (patch("/programs/x", b'{"colour": 1}'), 501),
        (put("/identity", b'{"seed": ""}'), 403),
    ],
)
def test_a_request_that_is_wrong_is_named(
    running: Agent, request_bytes: bytes, status: int
) -> None:
    found, fault = ask(running.socket_path, request_bytes)
    assert isinstance(fault, dict)
    assert (found, "colour" in fault["fault_message"]) == (status, b"colour" in request_bytes)


@pytest.mark.parametrize(
    "rest", [b"", b"Content-L", b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"]
)
def test_a_request_without_a_known_end_is_not_carried_out(
    running: Agent, sync_guest: Guest, rest: bytes
) -> None:
    sync_guest.hold()
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(str(running.socket_path))
        link.sendall(b"DELETE /hold HTTP/1.1\r\n" + rest)
        link.shutdown(socket.SHUT_WR)
        assert link.recv(1) == b""
    assert ask(running.socket_path, put("/programs/x", b'{"args": ["true"]}'))[0] == 503
    sync_guest.release()


def test_a_program_in_the_guest_is_no_host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Inside(socket.socket):
        def accept(self) -> tuple[socket.socket, object]:
            return super().accept()[0], (1, 1024)  # the address of the guest itself

    monkeypatch.setattr(agent, "ISOLATED", True)
    with Inside(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as program:
        listener.bind(str(tmp_path / "vsock"))
        listener.listen()
        program.connect(str(tmp_path / "vsock"))
        agent.accept(listener)
        assert program.recv(1) == b""


def test_its_socket_is_for_its_user_alone(running: Agent) -> None:
    assert stat.S_IMODE(running.socket_path.stat().st_mode) & 0o077 == 0


def test_it_ends_with_the_process_that_holds_its_input(running: Agent) -> None:
    assert running.process.stdin is not None
    running.process.stdin.close()
    assert running.process.wait(10) == 0


def test_a_host_is_no_machine(sync_guest: Guest) -> None:
    assert sync_guest.info().isolated is False
    for renew in (sync_guest.set_clock, sync_guest.reseed, sync_guest.renew_identity):
        with pytest.raises(GuestAgentError, match="a process of a host"):
            renew()


# A machine, in a folder


def test_a_seed_is_credited_and_used_at_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    calls: list[tuple[int, bytes]] = []
    device = tmp_path / "random"
    device.touch()
    real_open = open
    monkeypatch.setattr("builtins.open", lambda path, *rest: real_open(device, *rest))
    monkeypatch.setattr(fcntl, "ioctl", lambda _, request, data=b"": calls.append((request, data)))
    agent.reseed(base64.urlsafe_b64encode(b"\xff" * 64).decode())
    # include/uapi/linux/random.h: entropy in bits, size in bytes, then the bytes
    expected = (512).to_bytes(4, sys.byteorder) + (64).to_bytes(4, sys.byteorder) + b"\xff" * 64
    assert calls == [(0x40085203, expected), (0x5207, b"")]


def test_host_keys_are_replaced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder, ran = tmp_path / "ssh", tmp_path / "ran"
    folder.mkdir()
    for name in ("ssh-keygen", "systemctl"):
        (tmp_path / name).write_text(f'#!/bin/sh\necho {name} "$@" >>{ran}\n')
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(agent, "HOST_KEYS", agent.HOST_KEYS.replace("/etc/ssh", str(folder)))
    for name in ("ssh_host_rsa_key", "ssh_host_ed25519_key.pub", "sshd_config"):
        (folder / name).touch()
    agent.RENEWALS["host_keys"](True)
    assert [path.name for path in folder.iterdir()] == ["sshd_config"]
    assert ran.read_text().splitlines()[0] == "ssh-keygen -A"
    assert "systemctl --no-block try-restart" in ran.read_text()
    folder.joinpath("sshd_config").unlink()
    folder.rmdir()
    agent.RENEWALS["host_keys"](True)  # there is no server


@pytest.mark.parametrize(
    ("words", "name"), [([], "agent.py"), (["unit"], "guest-agent.service"), (["init"], "init.sh")]
)
def test_what_a_guest_needs_is_printed(words: list[str], name: str) -> None:
    command = [sys.executable, "-m", "generated_vmm.guest", *words]
    printed = subprocess.run(command, check=True, capture_output=True).stdout
    assert printed == Path(agent.__file__).with_name(name).read_bytes()


def test_the_unit_and_the_init_start_the_same_file() -> None:
    for name in ("guest-agent.service", "init.sh"):
        text = Path(agent.__file__).with_name(name).read_text()
        assert "python3 -S /usr/lib/guest-agent/agent.py\n" in text
        assert re.search("(ulimit -n |LimitNOFILE=)65536", text)
        assert "HOME=/root\n" in text


def test_a_program_whose_host_has_gone_before_it_starts_does_not_start(programs: Requests) -> None:
    """Its request may come after that to end it, which had another connection."""
    host, guest = socket.socketpair()
    spec = b'{"args": ["sleep", "60"]}'
    host.send(put("/programs/one", spec))
    host.close()
    Requests(guest).serve()
    assert programs.known == {}


def test_a_program_that_starts_in_this_moment_is_found(
    programs: Requests, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[object] = []

    def find() -> None:
        with contextlib.suppress(agent.Refused):
            found.append(programs.patch_programs("one", {}))

    other = threading.Thread(target=find)
    begin = agent.Program._start

    def begun(program: agent.Program, given: str) -> object:
        other.start()
        other.join(0.2)  # it waits for this one
        return begin(program, given)

    monkeypatch.setattr(agent.Program, "_start", begun)
    programs.start("one", {"args": ["true"]})
    other.join()
    assert found
