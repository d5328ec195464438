"""`SimulatedMonitor`: a Firecracker monitor without a guest, on a unix socket."""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self, cast

from generated_vmm.misuse import Word, require_list
from generated_vmm.testing.description import CURRENT, Description, Json
from generated_vmm.testing.guest import SimulatedGuest
from generated_vmm.testing.http import Answer, Request
from generated_vmm.testing.machine import PAYLOAD_LIMIT, Machine, MonitorOptions, Phase
from generated_vmm.testing.operations import answer
from generated_vmm.testing.outlets import Outlets
from generated_vmm.testing.server import ApiServer, Faults

logger = logging.getLogger(__name__)
NO_FILES = "a simulated monitor needs no files with check_files=False, or --any-path"


@dataclass(frozen=True)
class ReceivedCall:
    """One request that the monitor carried out or refused, and the status of its response.

    `error` is an error of the simulation itself, which makes the status 500.
    """

    method: str
    path: str
    body: bytes | None
    status: int
    error: Exception | None = None

    def json(self) -> Json:
        """The body as JSON. Raises `ValueError` if there is none or it is not JSON."""
        return cast(Json, json.loads(self.body or b""))


class SimulatedMonitor:
    """Responds on `socket_path` as a Firecracker of the client's release does, for tests and demos.

    Use it as a context manager, sync or async, or call `start` and `stop`; it serves from a thread
    of its own. Like the real monitor, it refuses a path that exists, stores its state until it
    ends, and leaves its socket file behind after the guest's end. Faults that have not happened
    when it stops are logged. `check_files=False` accepts any host path; otherwise paths must exist.
    `host_devices` are the names of the existing tap devices (None: any name is accepted).
    `description` is the API of another release, from its `api.json`.
    """

    def __init__(
        self,
        socket_path: str | os.PathLike[str],
        *,
        check_files: bool = True,
        enable_pci: bool = False,
        host_devices: Collection[str] | None = None,
        instance_id: str = "anonymous-instance",
        version: str | None = None,
        payload_limit: int = PAYLOAD_LIMIT,
        mmds_size_limit: int | None = None,
        description: Description = CURRENT,
        outlets: Outlets | None = None,
    ) -> None:
        require_list("host_devices", host_devices, "a list of names")
        self.socket_path = Path(socket_path)
        self.faults = Faults()
        self.guest = SimulatedGuest()
        self._options = MonitorOptions(
            instance_id=instance_id,
            version=description.version if version is None else version,
            payload_limit=payload_limit,
            mmds_size_limit=payload_limit if mmds_size_limit is None else mmds_size_limit,
            enable_pci=enable_pci,
            check_files=check_files,
            host_devices=host_devices,
            description=description,
        )
        self._outlets = outlets
        self.machine = self._fresh_machine()
        self._calls: list[ReceivedCall] = []
        self._server: ApiServer | None = None
        self._thread: threading.Thread | None = None

    @property
    def calls(self) -> tuple[ReceivedCall, ...]:
        """Every request since the start, in order, except those that the HTTP layer refused."""
        return tuple(self._calls)

    @property
    def state(self) -> str:
        """`Not started`, `Running` or `Paused`, as in `GET /`."""
        found: str = Word.of(tuple(phase.value for phase in Phase), self.machine.phase.value)
        return found

    @property
    def exit_code(self) -> int | None:
        """The exit code of the simulated process; None while it lives."""
        return self.machine.exit_code

    def start(self) -> None:
        """Listen, and serve from a thread. Raises `OSError` as `listen` does."""
        self.listen()
        self._thread = threading.Thread(target=self.serve, name="simulated-monitor", daemon=True)
        self._thread.start()

    def stop(self, *, keep_socket: bool = False) -> None:
        """Stop serving and remove the socket, unless `keep_socket`; safe to call twice.

        While another thread is in `serve`, call `interrupt` first and wait for it to return.
        """
        if self._server is None:
            return
        if pending := self.faults.pending:
            came = f"{len(self._calls)} calls came to {self.socket_path}"
            logger.warning("%s, and these faults did not happen: %s", came, ", ".join(pending))
        self.interrupt()
        if self._thread is not None:
            self._thread.join()
        self._server.close()
        self._server = self._thread = None
        self._end(remove_files=not keep_socket)
        if not keep_socket:
            self.socket_path.unlink(missing_ok=True)

    def finish_boot(self) -> None:
        """Bring the drivers of a started guest up; those of a paused one when it is resumed.

        For a guest whose `boot_seconds` is None.
        """
        self.machine.finish_boot()

    def exit(self, code: int = 0) -> None:
        """End the simulated process, as a guest that halts or crashes does.

        The socket file stays, and connecting to it is refused.
        """
        self.machine.exit_code = code
        self.interrupt()
        if self._thread is not None:
            self._thread.join()

    def listen(self) -> None:
        """Bind the socket, with a machine that has not been started; clients may connect.

        Raises `OSError` if the path exists or cannot be created.
        """
        if self._server is not None:
            raise RuntimeError(f"the monitor at {self.socket_path} has been started already")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listener.bind(os.fspath(self.socket_path))
        except OSError as error:
            listener.close()
            raise OSError(
                error.errno,
                f"Failed to open the API socket at: {self.socket_path}. "
                f"Check that it is not already used. ({error.strerror or error})",
            ) from error
        listener.listen(128)
        self.machine = self._fresh_machine()
        self._calls.clear()
        limit = self._options.payload_limit
        self._server = ApiServer(listener, self._respond, self.faults, payload_limit=limit)

    def serve(self) -> int | None:
        """Serve on this thread until `interrupt` or the end of the simulated process.

        Returns the exit code of the process, None if it was interrupted. Like the real monitor, it
        leaves the socket file behind; `stop` removes it.
        """
        if self._server is None:
            raise RuntimeError(f"the monitor at {self.socket_path} does not listen")
        self._server.serve()
        self._end(remove_files=False)
        return self.machine.exit_code

    def interrupt(self) -> None:
        """Make `serve` return soon; safe from any thread and from a signal handler."""
        if self._server is not None:
            self._server.stop()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, *raised: object) -> None:
        self.stop()

    def _end(self, *, remove_files: bool) -> None:
        self.guest.end_agent()
        self.machine.end(remove_files=remove_files)
        if self._outlets is None:
            self.machine.outlets.close()

    def _fresh_machine(self) -> Machine:
        outlets = self._outlets or Outlets(self._options.instance_id)
        return Machine(self._options, self.guest, outlets)

    def _respond(self, request: Request) -> Answer:
        error: Exception | None = None
        self.machine.outlets.metrics.count_request(request.method, request.path)
        try:
            given = self.faults.take_refusal() or answer(self.machine, request)
        except Exception as failed:  # the server continues
            logger.exception("The simulated monitor failed at %s %s", request.method, request.path)
            error, reason = failed, f"{type(failed).__name__}: {failed}"
            given = Answer.refusing(f"The simulated monitor failed: {reason}", 500)
        if self._options.check_files and "No such file" in given.fault:
            given = replace(given, note=NO_FILES)
        call = ReceivedCall(request.method, request.path, request.body, given.status, error)
        self._calls.append(call)
        self.machine.outlets.record(request, given)
        return given
