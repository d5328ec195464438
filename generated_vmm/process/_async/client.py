"""The client of a monitor that this process owns: its errors say when the monitor has ended."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from dataclasses import replace
from functools import partial
from typing import Any

from generated_vmm._generated import operations
from generated_vmm.errors import VmmConnectionError
from generated_vmm.facade import AsyncVmmClient
from generated_vmm.facade.values import Advice
from generated_vmm.operation import Operation
from generated_vmm.process import mistakes
from generated_vmm.process._async.waiting import comes_true, in_own_thread
from generated_vmm.process.errors import MonitorError
from generated_vmm.process.owner import Owner
from generated_vmm.transport import (
    DEFAULT_MAX_BODY_BYTES,
    AsyncUnixChannel,
    CallFailed,
    HttpAnswer,
)
from generated_vmm.transport._async.vsock import async_connect_vsock
from generated_vmm.transport.calls import NOTES, deadline_after

# A monitor closes its connections some time before it ends: 35 ms for an empty 128 MiB guest.
LONGEST_END = 0.25  # seconds
LONGEST_LOOK = 0.5  # seconds for the files of disks, which may be on a server that has gone
FLUSH = b'{"action_type":"FlushMetrics"}'
BINDING = ("/vsock", "/snapshot/load")  # calls that make a socket
IN_JAIL = {
    "No such file": "{} does not exist: paths are those inside of the jail, as "
    "monitor.copy_in(file) and link_in(file) return them",
    "Permission denied": "{} belongs to another user: link_in(file, give=True) makes the jailed "
    "user the owner",
}


async def note_socket(owner: Owner, deadline: float) -> None:
    """Waits until the keeper has noted what the monitor has bound; it does so at the end too."""
    has_noted = partial(owner.has_noted, owner.noted)
    owner.say("bound")
    await comes_true(owner, has_noted, max(0.0, deadline - time.monotonic()))


class AsyncMonitorChannel(AsyncUnixChannel):
    """Raises `MonitorExited` if a call failed because the monitor has ended."""

    def __init__(self, owner: Owner) -> None:
        super().__init__(owner.place.socket_path, connect=owner.connect)
        self._owner = owner

    async def exchange(self, operation: Operation[object], seconds: float | None) -> HttpAnswer:
        """The response to the operation within `seconds`, after a look at its disk."""
        owner = self._owner
        await self._look_at(operation, mistakes.disks_in(operation))
        deadline, lines = deadline_after(seconds), (metrics := owner.outlets.metrics).position
        flushes = operation.body == FLUSH and "metrics_path" not in owner.place.settings
        if binds := operation.path in BINDING:
            owner.say("binding")
        answer = await self._exchange(operation, deadline)
        if binds:
            await note_socket(owner, deadline)
        if operation.path == "/snapshot/load" and answer.status_code < 300:
            await self._look_at(operation, await self._loaded())
        if flushes and answer.status_code < 300:
            await comes_true(metrics, lambda: metrics.position > lines, LONGEST_LOOK)
        return answer

    async def _exchange(self, operation: Operation[object], deadline: float) -> HttpAnswer:
        try:
            return await super().exchange(operation, deadline - time.monotonic())
        except CallFailed as failed:
            is_lost = failed.kind is VmmConnectionError and not failed.permanent
            if is_lost and await comes_true(self._owner, self._owner.is_over, LONGEST_END):
                raise self._owner.exited() from failed.__cause__
            raise

    async def _look_at(self, operation: Operation[object], disks: list[dict[str, Any]]) -> None:
        """Tells what is wrong with the files of disks, if they respond in time."""
        if disks:
            look, mistake = partial(mistakes.mistake_of_disks, disks, self._owner), ""
            with contextlib.suppress(Exception):  # in time, and if a thread can be started
                mistake = await in_own_thread(look, LONGEST_LOOK)
            mistakes.tell(operation, mistake)

    async def _loaded(self) -> list[dict[str, Any]]:
        """The disks of the snapshot that was loaded, if the monitor shows them in time."""
        with contextlib.suppress(CallFailed, MonitorError):  # the next call raises it
            deadline = deadline_after(LONGEST_LOOK)
            shown = await self._exchange(operations.get_export_vm_config(), deadline)
            return mistakes.disks_of(shown.content)
        return []


class AsyncMonitorClient(AsyncVmmClient):
    """The client of a monitor that this process owns; it knows the paths of the sockets."""

    def __init__(self, owner: Owner) -> None:
        place, channel = owner.place, AsyncMonitorChannel(owner)
        limit = place.settings.get("http_api_max_payload_size", DEFAULT_MAX_BODY_BYTES)
        super().__init__(place.socket_path, max_body_bytes=limit, transport=channel)
        self._owner = owner
        begin = f"; relative paths begin at {place.settings['cwd']}"
        own = {"No such file": NOTES["No such file"] + begin} if owner.root is None else IN_JAIL
        advice = Advice(
            has_metadata="metadata" in place.settings, has_taps="netns" not in place.settings
        )
        self._sender.settings = replace(self._sender.settings, notes=NOTES | own, advise=advice)

    async def open_vsock(
        self, port: int, uds_path: str | os.PathLike[str] | None, timeout: float
    ) -> socket.socket:
        """See `AsyncVmmClient.open_vsock`; also finds a jailed monitor's socket by itself."""
        if uds_path is not None:
            return await super().open_vsock(port, uds_path, timeout)
        held = self._owner.opened_vsock(path := await self._vsock_path())
        opened = f"/proc/self/fd/{held.number}"
        return await async_connect_vsock(opened, port, timeout, name=path)
