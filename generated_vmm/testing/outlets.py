"""What a monitor writes besides its answers: log lines and metrics."""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from typing import Any, Final

LEVELS: Final = ("off", "error", "warn", "info", "debug", "trace")
SECTIONS: Final = (
    "api_server", "balloon", "block", "deprecated_api", "get_api_requests", "i8042", "uart",
    "latencies_us", "logger", "mmds", "net", "patch_api_requests", "put_api_requests", "seccomp",
    "vcpu", "vmm", "signals", "vsock", "entropy", "pmem", "interrupts", "memory_hotplug",
)  # fmt: skip


class Outlets:
    """The log and the metrics of one monitor; each is written to a file descriptor or nowhere.

    A file that cannot be written to (a pipe nobody reads) loses lines and disturbs nothing.
    """

    def __init__(self, instance_id: str, log_to: int | None = None) -> None:
        self._instance_id = instance_id
        self._log = log_to
        self._metrics: int | None = None
        self._opened: list[int] = []
        self._counters: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()
        self.level = "info"
        self.show_level = False
        self.show_origin = False

    @property
    def has_metrics(self) -> bool:
        """Whether the metrics have been given a file; that cannot be undone."""
        return self._metrics is not None

    def open_log(self, path: str) -> None:
        """Write the log to this file or pipe from now on. Raises `OSError`, `ValueError`."""
        self._log = self._open(path)

    def open_metrics(self, path: str) -> None:
        """Write the metrics to this file or pipe. Raises `OSError`, `ValueError`."""
        self._metrics = self._open(path)

    def log(self, message: str, *, level: str = "info", thread: str = "main") -> None:
        """Write one line, as far as the level lets it through."""
        if self._log is None or LEVELS.index(level) > LEVELS.index(self.level):
            return
        nanoseconds = time.time_ns()
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(nanoseconds // 10**9))
        origin = [level.upper()] if self.show_level else []
        origin += ["generated_vmm/testing"] if self.show_origin else []
        source = ":".join([self._instance_id, thread, *origin])
        self._write(self._log, f"{moment}.{nanoseconds % 10**9:09d} [{source}] {message}\n")

    def count(self, section: str, name: str, by: int = 1) -> None:
        """Add to a counter of the metrics."""
        with self._lock:
            self._counters[section, name] += by

    def flush_metrics(self) -> None:
        """Write what has been counted since the last time as one line of JSON."""
        with self._lock:
            counted, self._counters = self._counters, Counter()
        if self._metrics is None:
            return
        line: dict[str, Any] = {"utc_timestamp_ms": time.time_ns() // 10**6}
        line |= {section: {} for section in SECTIONS}
        for (section, name), number in counted.items():
            line[section][name] = number
        self._write(self._metrics, json.dumps(line, separators=(",", ":")) + "\n")

    def close(self) -> None:
        """Close the files; nothing is written any more."""
        self._log = self._metrics = None
        while self._opened:
            os.close(self._opened.pop())

    def _open(self, path: str) -> int:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC
        self._opened.append(os.open(path, flags, 0o644))
        return self._opened[-1]

    def _write(self, descriptor: int, line: str) -> None:
        try:
            os.write(descriptor, line.encode())
        except OSError:
            self.count("logger", "missed_log_count")
