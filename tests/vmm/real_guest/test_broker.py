"""A guest calls an API as Alice by its vsock device, and never has one of her tokens."""

import asyncio
import mmap
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from generated_vmm.guest import CompletedProgram, Guest
from tests.oidc.broker.apis import Api, says
from tests.oidc.broker.rig import Rig, rigged
from tests.vmm.real_guest.rigs import EMULATED, HOST_PORT, RUN, Firecracker

EVENTS = b"the events of Alice"
REQUEST = b"GET /events HTTP/1.1\r\nHost: calendar.internal\r\nConnection: close\r\n\r\n"
CALL = f"""
import socket, sys
stream = socket.socket(socket.AF_VSOCK)
stream.connect((socket.VMADDR_CID_HOST, {HOST_PORT}))
stream.sendall({REQUEST!r})
while data := stream.recv(65536):
    sys.stdout.buffer.write(data)
"""


async def call(guest: Guest) -> CompletedProgram:
    """A program of the guest asks for the events."""
    return await asyncio.to_thread(guest.run, ["python3", "-S", "-c", CALL])


def memory_of(name: str) -> Iterator[bytes]:
    """The memory of a rig's machine, in overlapping pieces; it contains that of inner machines."""
    process = Path("/proc", (RUN / name / "qemu.pid").read_text().strip())
    [file] = [each for each in process.glob("fd/*") if "memfd:memory-backend" in os.readlink(each)]
    with file.open("rb") as memory, mmap.mmap(memory.fileno(), 0, prot=mmap.PROT_READ) as pages:
        for start in range(0, len(pages), 1 << 26):
            yield pages[start : start + (1 << 26) + 4096]


def found_in(name: str, *texts: bytes) -> set[bytes]:
    """Those of the texts that are in the memory of a rig's machine."""
    return {text for piece in memory_of(name) for text in texts if text in piece}


def tokens_of(rig: Rig) -> list[bytes]:
    """Every token that belongs to the access: of the session, and of the calls."""
    tokens = rig.session.tokens
    texts = [tokens.access_token, tokens.refresh_token, tokens.id_token]
    return [text.encode() for text in (*texts, *(each.token for each in rig.api.received)) if text]


async def play(rig: Rig, guest: Guest, machine: str) -> None:
    """Two calls, a search of the machine's memory, a sign-out, and a call that is refused."""
    for _ in range(2):
        assert (await call(guest)).stdout.endswith(EVENTS)
    assert len(set(tokens_of(rig))) > 3
    assert found_in(machine, EVENTS, *tokens_of(rig)) == {EVENTS}
    assert (await rig.browser.post("/auth/logout")).status_code == 200
    refused = (await call(guest)).stdout
    assert refused.startswith(b"HTTP/1.1 401 ")
    assert refused.endswith(b"broker.signed_out: The access has ended.\n")
    lines = [(each.sub, each.status) for each in rig.trail[-3:]]
    assert lines == [("alice", 200), ("alice", 200), ("alice", 401)]


async def test_a_guest_under_qemu_uses_the_rights_of_alice(emulated: Guest) -> None:
    path = f"{EMULATED}_{HOST_PORT}"
    async with rigged(api=Api(says(EVENTS))) as rig, rig.broker.serve(rig.access, path):
        await play(rig, emulated, "guest")


async def test_a_guest_of_firecracker_uses_them_and_its_clone_does_not(
    outer: Guest, monitor: Firecracker, inner: Guest
) -> None:
    path = str(monitor.host_path)
    async with rigged(api=Api(says(EVENTS))) as rig, rig.broker.serve(rig.access, path):
        assert (await call(inner)).stdout.endswith(EVENTS)
        clone = await asyncio.to_thread(call_of_a_clone, outer, monitor)
        assert clone.stdout == b""  # nothing listens for it on the host
        await play(rig, inner, "outer")


def call_of_a_clone(outer: Guest, monitor: Firecracker) -> CompletedProgram:
    """A call of a clone, while the machine that it copies has access."""
    monitor.client.pause()
    monitor.client.snapshot.create(
        snapshot_path=f"{monitor.folder}/state", mem_file_path=f"{monitor.folder}/memory"
    )
    monitor.client.resume()
    with ExitStack() as stack:
        clone = Firecracker(outer, 20, stack)
        guest = clone.load(monitor.folder)
        stack.callback(clone.end)
        return guest.run(["python3", "-S", "-c", CALL])
