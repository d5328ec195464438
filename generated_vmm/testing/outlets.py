"""The monitor's outputs besides responses: log lines, metrics and the guest's console."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from generated_vmm.testing.http import Answer, Request

BAD_REQUEST: Final = 400
LEVELS: Final = ("off", "error", "warn", "info", "debug", "trace")

# The groups and counters of 1.16.1, one group per line; `_agg` stands for three figures. Counters
# with other names are shown too.
GROUPS: Final[dict[str, str]] = dict(
    line.split(": ", 1)
    for line in Path(__file__).with_name("metrics.txt").read_text("ascii").splitlines()
)
# The counter of a request, by the first segment of its path.
COUNTED: Final = {
    "": "instance_info", "cpu-config": "cpu_cfg", "drives": "drive", "hotplug": "hotplug_memory",
    "machine-config": "machine_cfg", "network-interfaces": "network", "version": "vmm_version",
}  # fmt: skip


class Metrics:
    """Counters since the last line. Safe to use from any thread."""

    def __init__(self) -> None:
        self._counters: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()

    def count(self, group: str, name: str, by: int = 1) -> None:
        """Add to a counter."""
        with self._lock:
            self._counters[group, name] += by

    def count_request(self, method: str, path: str, what: str = "count") -> None:
        """Count a request when it comes, and its refusal (`fails`)."""
        first = path.strip("/").partition("/")[0]
        name = COUNTED.get(first, first.replace("-", "_"))
        group = f"{method.lower()}_api_requests"
        if group in GROUPS and (what == "count" or method != "GET"):
            self.count(group, f"{name}_{what}")

    def line(self, devices: Iterable[str] = ()) -> str:
        """The counts since the last call, as JSON; `devices` have groups of their own.

        The counts of a device are in the group of its kind too.
        """
        with self._lock:
            counted, self._counters = self._counters, Counter()
        groups = {group: _zeros(group) for group in (*GROUPS, *devices)}
        for (group, name), number in counted.items():
            for each in {group, _kind(group)}:
                counters = groups.setdefault(each, _zeros(each))
                counters[name] = counters.get(name, 0) + number
        moment = {"utc_timestamp_ms": time.time_ns() // 10**6}
        return json.dumps(moment | groups, separators=(",", ":"))


def _kind(group: str) -> str:
    """The group of a device's kind, such as `block` for `block_rootfs`."""
    kind = group.partition("_")[0]
    return kind if group not in GROUPS and kind in GROUPS else group


def _zeros(group: str) -> dict[str, Any]:
    names = GROUPS.get(_kind(group), "").split()
    aggregate = {"min_us": 0, "max_us": 0, "sum_us": 0}
    return {name: dict(aggregate) if name.endswith("_agg") else 0 for name in names}


class Outlets:
    """The files of one monitor, opened for reading too, so that a pipe needs no reader.

    Output that cannot be written (to a full pipe) is lost, without an error.
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

    def open_log(self, path: str) -> None:
        """Write the log to this file or pipe from now on. Raises `OSError`, `ValueError`."""
        self._log = self._open(path, self._log)

    def open_metrics(self, path: str) -> None:
        """Write the metrics to this file or pipe. Raises `OSError`, `ValueError`.

        Also raises `OSError` when they have one already.
        """
        opened = self._open(path)
        if self._metrics is not None:
            self._close(opened)
            raise OSError("Reinitialization of metrics not allowed.")
        self._metrics = opened

    def open_serial(self, path: str) -> None:
        """Write the guest's console to this file or pipe. Raises `OSError`, `ValueError`."""
        self._serial = self._open(path, self._serial)

    def log(self, message: str, *, level: str = "info", thread: str = "main") -> None:
        """Write one line, if its level and module are enabled."""
        if self._log is None or LEVELS.index(level) > LEVELS.index(self.level):
            return
        module = "api_server" if thread == "fc_api" else "firecracker"
        if not f"{module}::".startswith(self.module):
            return
        nanoseconds = time.time_ns()
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(nanoseconds // 10**9))
        origin = [level.upper()] * self.show_level + [f"{module}.rs:1"] * self.show_origin
        source = ":".join([self._instance_id, thread, *origin])
        line = f"{moment}.{nanoseconds % 10**9:09d} [{source}] {message}\n"
        if not _write(self._log, line.encode()):
            self.metrics.count("logger", "missed_log_count")

    def record(self, request: Request, answer: Answer) -> None:
        """Log a request and its response, and count a refusal."""
        if refused := answer.status >= BAD_REQUEST:
            self.metrics.count_request(request.method, request.path, "fails")
        self.metrics.count("deprecated_api", "deprecated_http_api_calls", answer.deprecated)
        if self._log is None:
            return
        said = (request.body or b"").decode(errors="replace")
        shown = f" with body {json.dumps(said)}" if said and request.path != "/mmds" else ""
        asked = f'{request.method.capitalize()} request on "{request.path}"{shown}'
        self.log(f"The API server received a {asked}.", thread="fc_api")
        text = f"The request was executed successfully. Status code: {answer.status}."
        if refused:
            text = f"Received Error. Status code: {answer.status}. Message: {answer.fault}"
        self.log(text, level="error" if refused else "info", thread="fc_api")

    def flush_metrics(self, devices: Iterable[str] = ()) -> None:
        """Write the counts since the last line as one line, with groups of `devices`."""
        line = self.metrics.line(devices)
        if self._metrics is not None and not _write(self._metrics, f"{line}\n".encode()):
            self.metrics.count("logger", "missed_metrics_count")

    def print_serial(self, content: bytes) -> None:
        """Write the guest's serial output."""
        self.metrics.count("uart", "write_count", len(content))
        if self._serial is None:
            self.console(content)
        elif not _write(self._serial, content):
            self.metrics.count("uart", "missed_write_count")

    def close(self) -> None:
        """Close the files; later output is dropped."""
        self._log = self._metrics = self._serial = None
        for descriptor in tuple(self._opened):
            self._close(descriptor)

    def _open(self, path: str, former: int | None = None) -> int:
        """Open a file in place of the previous one, which is closed if it was opened here."""
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
