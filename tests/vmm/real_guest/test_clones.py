"""Snapshots of a real Firecracker, and clones that must differ."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from generated_vmm.guest import Guest
from tests.vmm.real_guest.rigs import Firecracker

CLONES = 4
FACTS = "cat /proc/sys/kernel/random/uuid /etc/machine-id; hostname"


@pytest.fixture(scope="module")
def snapshot(outer: Guest, monitor: Firecracker, inner: Guest) -> str:
    """A snapshot of a guest with a program that has said something and waits."""
    program = inner.start(
        ["sh", "-c", "echo before; read line; echo $line after"], stdin=True, id="waiting"
    )
    assert next(program.output()).data == b"before\n"
    monitor.client.pause()
    monitor.client.snapshot.create(
        snapshot_path=f"{monitor.folder}/state", mem_file_path=f"{monitor.folder}/memory"
    )
    monitor.client.resume()
    return monitor.folder


def test_clones_differ_once_their_identity_is_new(
    outer: Guest, monitor: Firecracker, inner: Guest, snapshot: str
) -> None:
    facts: list[list[str]] = []
    instances = set()
    for number in range(1, CLONES + 1):
        with ExitStack() as stack:
            clone = Firecracker(outer, number, stack)
            guest = clone.load(snapshot)
            guest.renew_identity(hostname=f"clone-{number}")
            facts.append(guest.run(["sh", "-c", FACTS], check=True).text.split())
            instances.add(guest.info().instance)
            program = guest.attach("waiting")
            program.write(b"clone\n")
            assert program.communicate().stdout == b"before\nclone after\n"
            guest.close()
            clone.end()
    randoms, machines, hosts = zip(*facts, strict=True)
    assert len(set(randoms)) == len(set(machines)) == len(set(hosts)) == CLONES
    assert len(instances) == 1  # they are clones of one agent


def test_the_machine_runs_on_after_its_snapshot(inner: Guest, snapshot: str) -> None:
    program = inner.attach("waiting", offset=len(b"before\n"))
    program.write(b"original\n")
    assert program.communicate().stdout == b"original after\n"
    inner.set_clock()
