"""What a monitor writes besides its answers: log lines, metrics and the guest's console."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterable
from typing import Final

from generated_vmm.testing.metrics import Metrics
from generated_vmm.testing.wire.http_layer import Answer, Request

BAD_REQUEST: Final = 400
LEVELS: Final = ("off", "error", "warn", "info", "debug", "trace")


class Outlets:
    """The files of one monitor, opened for reading as well, so that a pipe needs no reader.

    What cannot be written (a full pipe) is lost and disturbs nothing.
    """

    def __init__(self, instance_id: str, log_to: int | None = None) -> None:
        self._instance_id = instance_id
        self._log = log_to
        self._metrics: int | None = None
        self._serial: int | None = None
        self._opened: set[int] = set()
        self.metrics = Metrics()
        self.console: Callable[[bytes], None] = lambda content: None
        self.level = "info"
        self.show_level = False
        self.show_origin = False
        self.module = ""

    @property
    def has_metrics(self) -> bool:
        """Whether the metrics have been given a file; that cannot be undone."""
        return self._metrics is not None

    def open_log(self, path: str) -> None:
        """Write the log to this file or pipe from now on. Raises `OSError`, `ValueError`."""
        self._log = self._open(path, self._log)

    def open_metrics(self, path: str) -> None:
        """Write the metrics to this file or pipe. Raises `OSError`, `ValueError`.

        Raises `RuntimeError` when they have one already.
        """
        opened = self._open(path)
        if self.has_metrics:
            self._close(opened)
            raise RuntimeError("Reinitialization of metrics not allowed.")
        self._metrics = opened

    def open_serial(self, path: str) -> None:
        """Write the guest's console to this file or pipe. Raises `OSError`, `ValueError`."""
        self._serial = self._open(path, self._serial)

    def log(self, message: str, *, level: str = "info", thread: str = "main") -> None:
        """Write one line, as far as level and module let it through."""
        if self._log is None or LEVELS.index(level) > LEVELS.index(self.level):
            return
        module = "api_server" if thread == "fc_api" else "firecracker"
        if self.module and not f"{module}::".startswith(self.module):
            return
        nanoseconds = time.time_ns()
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(nanoseconds // 10**9))
        origin = [level.upper()] if self.show_level else []
        origin += [f"{module}.rs:1"] if self.show_origin else []
        source = ":".join([self._instance_id, thread, *origin])
        line = f"{moment}.{nanoseconds % 10**9:09d} [{source}] {message}\n"
        if not _write(self._log, line.encode()):
            self.metrics.count("logger", "missed_log_count")

    def record(self, request: Request, answer: Answer) -> None:
        """Log and count what was asked and what was answered."""
        refused = answer.status >= BAD_REQUEST
        self.metrics.count_request(request.method, request.path, refused=refused)
        self.metrics.count("deprecated_api", "deprecated_http_api_calls", answer.deprecated)
        if self._log is None:
            return
        said = (request.body or b"").decode(errors="replace")
        shown = f" with body {json.dumps(said)}" if said and request.path != "/mmds" else ""
        method = request.method.capitalize()
        self.log(
            f'The API server received a {method} request on "{request.path}"{shown}.',
            thread="fc_api",
        )
        text = f"The request was executed successfully. Status code: {answer.status}."
        if refused:
            text = f"Received Error. Status code: {answer.status}. Message: {answer.fault}"
        self.log(text, level="error" if refused else "info", thread="fc_api")

    def flush_metrics(self, devices: Iterable[str] = ()) -> None:
        """Write what has been counted since the last time as one line, with groups of `devices`."""
        line = self.metrics.line(devices)
        if self._metrics is not None and not _write(self._metrics, f"{line}\n".encode()):
            self.metrics.count("logger", "missed_metrics_count")

    def print_serial(self, content: bytes) -> None:
        """What the guest writes to its serial device."""
        self.metrics.count("uart", "write_count", len(content))
        if self._serial is None:
            self.console(content)
        elif not _write(self._serial, content):
            self.metrics.count("uart", "missed_write_count")

    def close(self) -> None:
        """Close the files; nothing is written any more."""
        self._log = self._metrics = self._serial = None
        for descriptor in tuple(self._opened):
            self._close(descriptor)

    def _open(self, path: str, former: int | None = None) -> int:
        """Open a file in the place of a former one, which is closed if it was opened here."""
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC
        opened = os.open(path, flags, 0o644)
        self._opened.add(opened)
        self._close(former)
        return opened

    def _close(self, descriptor: int | None) -> None:
        if descriptor is not None and descriptor in self._opened:
            self._opened.discard(descriptor)
            os.close(descriptor)


def _write(descriptor: int, content: bytes) -> bool:
    with contextlib.suppress(OSError):
        return os.write(descriptor, content) == len(content)
    return False
