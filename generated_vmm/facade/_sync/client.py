# Derived from `generated_vmm/facade/_async/client.py` by `make codegen`. Do not edit.
"""The client: its channel and limits, and the members that need several operations."""

from __future__ import annotations

import copy
import os
import socket
import time
from dataclasses import replace
from typing import Any, Never, Self, Unpack

from generated_vmm._generated import models, operations
from generated_vmm._generated._sync.resources import MonitorApi
from generated_vmm.binding import Fields
from generated_vmm.binding._sync.resource import Sender
from generated_vmm.concurrency._sync import Context, sleep, stream_of
from generated_vmm.errors import VmmConnectionError, VmmTimeoutError
from generated_vmm.facade.boot import boot_steps
from generated_vmm.facade.elsewhere import CLIENT, require_socket_path
from generated_vmm.facade.values import advice_at
from generated_vmm.misuse import require_kind
from generated_vmm.operation import Answer, Operation
from generated_vmm.transport import (
    DEFAULT_MAX_ANSWER_BYTES,
    DEFAULT_MAX_BODY_BYTES,
    DEFAULT_TIMEOUT,
    CallSettings,
)
from generated_vmm.transport._sync.unix import Channel, UnixChannel
from generated_vmm.transport._sync.vsock import VsockConnection, connect_vsock

POLL_SECONDS = 0.01
NO_VSOCK = (
    "no vsock device, and the machine was started. It must be set before the start: "
    "vm.vsock.set(guest_cid=3, uds_path=...)"
)


class VmmClient(MonitorApi, Context):
    """Controls the microVM of the monitor that listens on a unix socket.

    Each call has a connection of its own. `timeout` is for a whole call, in seconds, None for no
    limit; with the default, `snapshot.create` may take 300 s. A body over `max_body_bytes` is
    refused before it is sent; reading stops when a response exceeds `max_answer_bytes`. `transport`
    is a channel in place of the connections, for tests or a proxy. Calls raise `VmmError`. Tasks of
    one event loop may share a client; their calls take turns.
    """

    _elsewhere = CLIENT

    def __init__(
        self,
        socket_path: str | os.PathLike[str],
        *,
        timeout: float | None = DEFAULT_TIMEOUT,
        max_body_bytes: int = DEFAULT_MAX_BODY_BYTES,
        max_answer_bytes: int = DEFAULT_MAX_ANSWER_BYTES,
        transport: Channel | None = None,
    ) -> None:
        require_kind("max_answer_bytes", max_answer_bytes, "a number of bytes", int)
        is_own = transport is None
        path = require_socket_path(socket_path) if is_own else os.fsdecode(socket_path)
        channel = transport or UnixChannel(path, max_answer_bytes)
        settings = CallSettings(path, timeout, max_body_bytes)
        if is_own:
            settings = replace(settings, advise=advice_at(os.path.abspath(path)))
        super().__init__(Sender(settings, channel))

    def __repr__(self) -> str:
        settings = self._sender.settings
        return f"{type(self).__name__}({settings.socket_path!r}, timeout={settings.timeout})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the channel, also for clients made with `with_options`; later calls fail."""
        self._sender.close()

    def with_options(self, *, timeout: float | None) -> Self:
        """The same client with another timeout in seconds; both share the channel."""
        return self._with(timeout=timeout)

    def _with(self, **members: Any) -> Self:
        client = copy.copy(self)
        settings = replace(self._sender.settings, **members)
        MonitorApi.__init__(client, Sender(settings, self._sender.channel))
        return client

    def send(self, operation: Operation[Answer]) -> Answer:
        """Sends an operation, and returns the value in its response."""
        return self._sender.send(operation)

    def action(self, action_type: models.InstanceActionInfoActionType) -> None:
        """`create_sync_action` for an action by name (PUT /actions)."""
        self.create_sync_action(action_type=action_type)

    def wait_until_ready(self, timeout: float = DEFAULT_TIMEOUT) -> models.InstanceInfo:
        """Requests the instance until the monitor responds, for at most `timeout` seconds.

        For a monitor that was just started: its socket may not exist yet, or exist before it
        listens. Raises `VmmTimeoutError` if there is no response in time. A `VmmConnectionError`
        that is `permanent` is raised immediately.
        """
        operation = operations.describe_instance()
        client = self.with_options(timeout=timeout)
        deadline = time.monotonic() + timeout
        while True:
            try:
                return client.send(operation)
            except VmmConnectionError as error:
                if error.permanent:
                    raise
                left = deadline - time.monotonic() - POLL_SECONDS
                if left <= 0:
                    message = f"not ready within {timeout} s, at last: {error}"
                    raise VmmTimeoutError(message, operation) from error
            sleep(POLL_SECONDS)
            client = self.with_options(timeout=left)

    def boot(
        self,
        boot_source: str | os.PathLike[str] | models.BootSource | Fields,
        root_drive: str | os.PathLike[str] | models.Drive | Fields | None = None,
        machine_config: models.MachineConfiguration | Fields | None = None,
        *sizes: Never,
        **fields: Unpack[models.PartialMachineConfigurationFields],
    ) -> models.InstanceInfo:
        """Sets kernel, root drive and machine size, starts the microVM and reads its state.

        A string or path object is the host path of the kernel or root drive. Without `root_drive`
        the boot source needs an initrd, else most kernels panic: the monitor does not say so. Pass
        `machine_config` or its `fields`; a field that is not passed has the monitor's default. All
        values are checked before the first request. Set up other devices first, with their members.
        """
        if sizes:
            raise TypeError("boot takes sizes by name: vcpu_count=2, mem_size_mib=512")
        for step in boot_steps(boot_source, root_drive, machine_config, fields):
            self.send(step)
        return self.send(operations.describe_instance())

    def pause(self) -> None:
        """Pauses the vCPUs of a started microVM; no error if they are paused (PATCH /vm)."""
        self.send(operations.patch_vm(models.Vm(state="Paused")))

    def resume(self) -> None:
        """Resumes the vCPUs; no error if they run (PATCH /vm)."""
        self.send(operations.patch_vm(models.Vm(state="Resumed")))

    def connect_vsock(
        self,
        port: int,
        *,
        uds_path: str | os.PathLike[str] | None = None,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> VsockConnection:
        """Connects to a port in the guest, and retries until a process there listens.

        The monitor supplies the path of the vsock device's unix socket. Pass `uds_path` if this
        process sees the socket at another path, for example with a jailed monitor or a relative
        path. `timeout` is in seconds. Raises `VmmTimeoutError`, and `VmmConnectionError` without a
        vsock device, which is `permanent` once the machine was started.
        """
        return stream_of(self.open_vsock(port, uds_path, timeout))

    def open_vsock(
        self, port: int, uds_path: str | os.PathLike[str] | None, timeout: float
    ) -> socket.socket:
        """As `connect_vsock`, but a socket that never blocks."""
        path = self._vsock_path() if uds_path is None else os.fspath(uds_path)
        return connect_vsock(path, port, timeout)

    def _vsock_path(self) -> str:
        operation = operations.get_export_vm_config()
        vsock = (self.send(operation)).vsock
        if vsock is None:
            state = (self.send(operations.describe_instance())).state
            what = "no vsock device" if state == "Not started" else NO_VSOCK
            message = f"{operation} on {self._sender.settings.socket_path}: {what}"
            error = VmmConnectionError(message, operation)
            error.permanent = what is NO_VSOCK
            raise error
        return vsock.uds_path
