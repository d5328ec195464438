"""The agent in a Linux guest that has busybox and python3-minimal, on both rigs."""

import errno
import os
import socket
import time

import pytest

from generated_vmm.guest import Guest


def living(guest: Guest, pids: list[str]) -> list[str]:
    """Those of the processes that the guest still has."""
    script = 'for p in "$@"; do [ -d /proc/$p ] && echo $p; done; true'
    return guest.run(["sh", "-c", script, "sh", *pids], check=True).text.split()


def connected(guest: Guest, port: int) -> socket.socket:
    """A connection to a port on which a program will listen soon."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return guest.connect(port)
        except ConnectionRefusedError:
            assert time.monotonic() < deadline


def test_the_agent_needs_no_more_than_python3_minimal(guest: Guest) -> None:
    info = guest.info()
    assert (info.version, info.isolated) == (1, True)
    done = guest.run(["python3", "-S", "-c", "import json"])
    assert b"No module named 'json'" in done.stderr


def test_programs_have_streams_input_and_a_status(guest: Guest) -> None:
    done = guest.run(["sh", "-c", "cat; echo err >&2; exit 3"], input=b"in\n")
    assert (done.returncode, done.stdout, done.stderr) == (3, b"in\n", b"err\n")
    data = os.urandom(500_000)
    assert guest.run(["cat"], input=data).stdout == data
    assert guest.run(["sh", "-c", "id -u; pwd"], user="user", cwd="/tmp").text == "1000\n/tmp\n"
    assert guest.run(["stty", "size"], terminal={"rows": 7, "columns": 9}).text == "7 9\r\n"


def test_no_process_survives_a_kill(guest: Guest) -> None:
    script = "sleep 90 & echo $!; env -i /bin/setsid /bin/sleep 91 & echo $!; sleep 92"
    program = guest.start(["sh", "-c", script])
    text = b""
    for each in program.output():
        text += each.data
        if text.count(b"\n") == 2:
            break
    pids = text.decode().split()
    assert living(guest, pids) == pids
    program.kill()
    assert program.wait() == -9
    assert living(guest, pids) == []


def test_files_come_back_and_a_full_disk_leaves_no_half(guest: Guest) -> None:
    data = os.urandom(2_000_000)
    guest.path("/tmp/file").write_bytes(data, mode=0o600, owner="user")
    assert guest.path("/tmp/file").read_bytes() == data
    found = guest.path("/tmp/file").stat()
    assert (found.mode, found.uid) == (0o600, 1000)
    guest.run(["mkdir", "-p", "/small"], check=True)
    guest.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", "/small"], check=True)
    try:
        guest.path("/small/file").write_bytes(b"old")
        with pytest.raises(OSError, match="No space left on device") as caught:
            guest.path("/small/file").write_bytes(data)
        assert caught.value.errno == errno.ENOSPC
        assert guest.path("/small/file").read_bytes() == b"old"
        assert guest.run(["ls", "-A", "/small"]).text == "file\n"
    finally:
        guest.run(["umount", "/small"])


def test_a_port_of_the_guest(guest: Guest) -> None:
    guest.path("/tmp/index.html").write_bytes(b"hello from the guest")
    server = guest.start(["httpd", "-f", "-p", "127.0.0.1:8080", "-h", "/tmp"])
    with connected(guest, 8080) as stream:
        stream.sendall(b"GET / HTTP/1.0\r\n\r\n")
        received = b""
        while data := stream.recv(65536):
            received += data
    assert received.endswith(b"hello from the guest")
    server.kill()


def test_the_clock_is_set(guest: Guest) -> None:
    guest.run(["date", "-u", "-s", "2020-01-01 00:00:00"], check=True)
    guest.set_clock()
    assert abs(int(guest.run(["date", "+%s"], check=True).text) - time.time()) < 60


def test_an_identity_is_renewed(guest: Guest) -> None:
    guest.renew_identity(hostname="first")
    before = guest.path("/etc/machine-id").read_bytes()
    guest.renew_identity(hostname="second")
    assert guest.run(["hostname"]).text == "second\n"
    assert guest.path("/etc/machine-id").read_bytes() != before
    guest.reseed()


def test_the_init_collects_what_programs_leave_behind(guest: Guest) -> None:
    guest.run(["sh", "-c", "for i in 1 2 3; do setsid sleep 0 & done"], check=True)
    script = "sleep 1; cat /proc/[0-9]*/stat 2>/dev/null | grep ' Z 1 ' | wc -l"
    assert guest.run(["sh", "-c", script]).text.strip() == "0"
