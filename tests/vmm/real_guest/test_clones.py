"""Snapshots of a real Firecracker: a guest that stands still, and clones that must differ."""

import time
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from generated_vmm.guest import Guest
from tests.vmm.real_guest.rigs import Firecracker

CLONES = 4
SEEN = "/tmp/seen"  # random numbers of a program that runs all the time, and in the clones at once
USER = f"while :; do cat /proc/sys/kernel/random/uuid >>{SEEN}; done"
FACTS = "cat /etc/machine-id; hostname"


@dataclass
class Snapshot:
    """A snapshot of a guest that stood still, and the random numbers until then."""

    folder: str
    seen: list[bytes]


def seen(guest: Guest, count: int = 0) -> list[bytes]:
    """The random numbers, at least so many."""
    deadline = time.monotonic() + 120
    while len(found := guest.path(SEEN).read_bytes().split()) < count:
        assert time.monotonic() < deadline
    return found


def answers(guest: Guest) -> None:
    """Long and short answers of a program that was started before the snapshot."""
    assert {each.id for each in guest.programs()} >= {"waiting", "answering", "user"}
    program = guest.attach("answering", offset=guest.attach("answering").state.output_bytes)
    output = program.output()
    for size in (8000, 1, 300_000, 2, 3):
        program.write(b"x" * size)
        while size:
            size -= len(next(output).data)


def new(guest: Guest, since: Snapshot) -> list[bytes]:
    """Later numbers, except one that a program may have had in its memory already."""
    skipped = len(since.seen) + 1
    return seen(guest, skipped + 3)[skipped:]


@pytest.fixture(scope="module")
def snapshot(monitor: Firecracker, inner: Guest) -> Snapshot:
    """A snapshot of a guest with a program that has said something and waits, and one that runs."""
    program = inner.start(
        ["sh", "-c", "echo before; read line; echo $line after"], stdin=True, id="waiting"
    )
    assert next(program.output()).data == b"before\n"
    inner.start(["cat"], stdin=True, id="answering")
    inner.start(["sh", "-c", USER], id="user")
    inner.path(SEEN).write_bytes(b"")
    assert seen(inner, 1)
    inner.hold()
    found = seen(inner)
    monitor.client.pause()
    monitor.client.snapshot.create(
        snapshot_path=f"{monitor.folder}/state", mem_file_path=f"{monitor.folder}/memory"
    )
    monitor.client.resume()
    assert seen(inner) == found
    inner.set_clock()
    inner.release()
    return Snapshot(monitor.folder, found)


def test_clones_differ_in_whatever_runs_in_them(
    outer: Guest, inner: Guest, snapshot: Snapshot
) -> None:
    randoms: list[list[bytes]] = []
    facts: list[list[str]] = []
    instances = set()
    for number in range(1, CLONES + 1):
        with ExitStack() as stack:
            clone = Firecracker(outer, number, stack)
            guest = clone.load(snapshot.folder)
            assert seen(guest) == snapshot.seen  # nothing has run
            guest.renew_identity(hostname=f"clone-{number}", release=True)
            randoms.append(new(guest, snapshot))
            facts.append(guest.run(["sh", "-c", FACTS], check=True).text.split())
            instances.add(guest.info().instance)
            answers(guest)
            program = guest.attach("waiting")
            program.write(b"clone\n")
            assert program.communicate().stdout == b"before\nclone after\n"
            clone.end()
    randoms.append(new(inner, snapshot))
    everything = [number for numbers in randoms for number in numbers]
    assert len(set(everything)) == len(everything)
    machines, hosts = zip(*facts, strict=True)
    assert len(set(machines)) == len(set(hosts)) == CLONES
    assert len(instances) == 1  # they are clones of one agent


def test_the_machine_runs_on_after_its_snapshot(inner: Guest, snapshot: Snapshot) -> None:
    answers(inner)
    inner.attach("user").kill()
    program = inner.attach("waiting", offset=len(b"before\n"))
    program.write(b"original\n")
    assert program.communicate().stdout == b"original after\n"
