"""One call without its I/O: from a response to a value, from a failure to an error."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from threading import TIMEOUT_MAX
from typing import Protocol

from pydantic import ValidationError

from generated_vmm.errors import (
    VmmApiError,
    VmmConnectionError,
    VmmDeprecationWarning,
    VmmError,
    VmmProtocolError,
    VmmRequestTooLarge,
    VmmTimeoutError,
    shorten,
)
from generated_vmm.misuse import require_kind, tell_unit, warn_caller
from generated_vmm.operation import Answer, Operation

DEFAULT_TIMEOUT = 5.0
DEFAULT_MAX_BODY_BYTES = 51_200  # the monitor's default limit
NOT_SENT = "nothing was sent"
CLOSED = "the client is closed, by close(), the end of its block, or that of its monitor"
STARTS = "a monitor makes the socket when it starts, SimulatedMonitor in its `with` block"
ENDED = (
    "nothing listens on this socket: its monitor has ended, as when the guest halts or reboots, or "
    "has just begun. Who started the monitor has its exit status and log"
)
MAY_HAVE_ACTED = "the monitor may have carried the call out"
DEPRECATED = (b"deprecation", b"true")
NOTE = b"note"  # of a simulated monitor
PATHS = re.compile(r'"\w*path\w*":\s*("(?:[^"\\]|\\.)*")')
NOTES = {
    "No such file": "{} or its folder does not exist where the monitor runs",
    "Open tap device": "a tap of this name must exist, be free, and belong to the monitor's user: "
    "Tap(...) makes one, and `ip link` shows those that there are",
    "Address already in use": "a socket at {} is in use, or left by a monitor that has ended: "
    "remove it then",
    "is not initialized": "call mmds.config.set(...) before the start, then mmds.set(...)",
    "unavailable while running": "call pause() before, and resume() afterwards",
    "Invalid Elf magic": "this is no vmlinux, as docs/vmm/guest.md makes it: a bzImage has the "
    "kernel compressed, and a disk is no kernel",
    "Unable to read kernel image": "the kernel must be whole, and fit into mem_size_mib, in MiB",
    "after configuring boot-specific": "load it into a new monitor before anything is set: it has "
    "the machine's size and devices",
    "Snapshot size exceeds": "is the memory in snapshot_path, and the state in mem_backend?",
    "without kernel configuration": "call boot_source.set(kernel_image_path=...) before",
    "not supported after starting": "this comes before the start, and a microVM starts once: start "
    "a new monitor for another",
    "not supported before starting": "call action('InstanceStart') or boot(...) before",
    "Invalid magic value": "is the memory in snapshot_path, and the state in mem_backend?",
    "stats are disabled": "pass stats_polling_interval_s to balloon.set before the start",
    "Reinitialization of metrics": "they are set, as by Monitor(metrics_path=...)",
    "Empty PATCH request": "None is not sent: pass what changes",
    "Amount of pages requested": "amount_mib is in MiB, and less than mem_size_mib",
    "does not correspond to any existing network": "pass ids of network_interface(id), set before",
    "PCI is not enabled": "set devices before the start, or start the monitor with enable_pci",
}
"""What a caller can do, by the words of the monitor. `{}` stands for the paths of the call."""


class HttpAnswer(Protocol):
    """A response of the monitor, with its body."""

    @property
    def status_code(self) -> int:
        """The status."""

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """The headers, with names in lower case."""

    @property
    def content(self) -> bytes:
        """The whole body."""


def require_seconds(timeout: object) -> None:
    """Raises ValueError unless the value is a positive number of seconds; warns of many."""
    if not isinstance(timeout, int | float) or not 0 < timeout <= TIMEOUT_MAX:
        raise ValueError(f"timeout is {timeout!r}; it must be a number of seconds, more than 0")
    tell_unit("timeout", timeout)


def deadline_after(seconds: float | None) -> float:
    """The `time.monotonic()` by which a call that starts now must end."""
    require_kind("timeout", seconds, "a number of seconds", int, float)
    return math.inf if seconds is None else time.monotonic() + seconds


class CallFailed(Exception):
    """Why there is no response; the client turns it into an error that names the call.

    `kind` is the error that the caller gets, `sent` whether the monitor may have received the
    request, `permanent` whether later calls will fail too.
    """

    def __init__(
        self, kind: type[VmmError], reason: object, *, sent: bool, permanent: bool = False
    ) -> None:
        self.kind = kind
        self.reason = shorten(str(reason)) or type(reason).__name__
        self.sent = sent
        self.permanent = permanent
        super().__init__(self.reason)


def late(reason: object, *, sent: bool) -> CallFailed:
    """The time is up."""
    return CallFailed(VmmTimeoutError, reason, sent=sent)


def unreachable(reason: object, *, permanent: bool = False) -> CallFailed:
    """There is no connection, so nothing was sent."""
    if isinstance(reason, FileNotFoundError):
        reason = f"{reason} ({STARTS})"
    return CallFailed(VmmConnectionError, reason, sent=False, permanent=permanent)


def lost(reason: object) -> CallFailed:
    """The connection ended before the response was complete."""
    return CallFailed(VmmConnectionError, reason, sent=True)


def unreadable(reason: object) -> CallFailed:
    """The bytes are no response of a monitor."""
    return CallFailed(VmmProtocolError, reason, sent=True)


class Advise(Protocol):
    """What is wrong with calls that a monitor accepts."""

    def __call__(self, call: Operation[object], *, is_accepted: bool) -> str:
        """What is wrong with a call; empty if nothing is."""


@dataclass(frozen=True, slots=True)
class CallSettings:
    """What the calls of one client have in common.

    `timeout` is for a whole call, in seconds, None for no limit. `notes` are for the errors of
    calls, by the monitor's words. `advise` says what is wrong with a call before it is sent, and
    once it is accepted. Raises ValueError for an invalid limit and for an empty path.
    """

    socket_path: str
    timeout: float | None = DEFAULT_TIMEOUT
    max_body_bytes: int = DEFAULT_MAX_BODY_BYTES
    notes: Mapping[str, str] = field(default_factory=lambda: NOTES)
    advise: Advise | None = None

    def __post_init__(self) -> None:
        if not self.socket_path:
            raise ValueError("socket_path is empty; it names the monitor's unix socket")
        if self.timeout is not None:
            require_seconds(self.timeout)
        require_kind("max_body_bytes", self.max_body_bytes, "a number of bytes", int)
        if self.max_body_bytes < 0:
            raise ValueError(f"max_body_bytes is {self.max_body_bytes}; it cannot be negative")

    def limited(self, own_limit: float | None) -> CallSettings:
        """These settings with a call's own limit, unless the caller has chosen a timeout."""
        if own_limit is None or self.timeout != DEFAULT_TIMEOUT:
            return self
        return replace(self, timeout=own_limit)

    def check(self, operation: Operation[object]) -> None:
        """A RuntimeWarning for a likely mistake; VmmRequestTooLarge if the body is too large."""
        self._tell(operation, is_accepted=False)
        size = len(operation.body or b"")
        if size > self.max_body_bytes:
            what = f"the body has {size} bytes, the limit is {self.max_body_bytes}; {NOT_SENT}"
            raise VmmRequestTooLarge(self._message(operation, what), operation)

    def value_of(self, operation: Operation[Answer], answer: HttpAnswer) -> Answer:
        """The value in a response; raises VmmApiError and VmmProtocolError."""
        if DEPRECATED in answer.headers:
            what = "the monitor says that this call uses something deprecated: docs/vmm/errors.md"
            warn_caller(f"{operation}: {what} has its successor", VmmDeprecationWarning)
        if not 200 <= answer.status_code < 300:
            fault = fault_message_in(answer.content)
            error = VmmApiError(answer.status_code, fault, operation)
            self._add_notes(error)
            if note := dict(answer.headers).get(NOTE):
                error.add_note(note.decode(errors="replace"))
            raise error
        self._tell(operation, is_accepted=True)
        try:
            return operation.read(answer.content)
        except ValueError as fault:
            what = f"the {answer.status_code} response {_fault_of(fault)}; {MAY_HAVE_ACTED}"
            raise VmmProtocolError(self._message(operation, what), operation) from fault

    def _tell(self, operation: Operation[object], *, is_accepted: bool) -> None:
        if self.advise and (advice := self.advise(operation, is_accepted=is_accepted)):
            warn_caller(f"{operation}: {advice}")

    def _add_notes(self, refusal: VmmApiError) -> None:
        found = ", ".join(PATHS.findall((refusal.operation.body or b"").decode())) or "a file"
        if refusal.operation.path == "/snapshot/load":  # whose devices have paths, too
            found = "a path of the call or in the snapshot"
        for words, note in self.notes.items():
            if words in refusal.fault_message:
                refusal.add_note(note.replace("{}", found))

    def error_of(self, operation: Operation[object], failed: CallFailed) -> VmmError:
        """The error for a call that got no response."""
        what = failed.reason
        if failed.kind is VmmTimeoutError:
            what = f"{what} within {self.timeout} s"
        elif failed.kind is VmmConnectionError:
            what = f"{'connection lost' if failed.sent else 'no connection'}: {what}"
        known = MAY_HAVE_ACTED if failed.sent else NOT_SENT
        error = failed.kind(self._message(operation, f"{what}; {known}"), operation)
        if isinstance(error, VmmConnectionError):
            error.permanent = failed.permanent
        return error

    def _message(self, operation: Operation[object], what: str) -> str:
        return f"{operation} on {self.socket_path}: {what}"


def _fault_of(error: ValueError) -> str:
    """What a model found wrong with a response, without the values that it found."""
    if not isinstance(error, ValidationError):
        return f"is not what was asked for: {shorten(str(error))}"
    found = error.errors(include_url=False, include_input=False, include_context=False)
    faults = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in found]
    return shorten(f"is not what was asked for: {'; '.join(faults)}").replace(": : ", ": ")


def fault_message_in(content: bytes) -> str:
    """The `fault_message` of a JSON fault, the `error` of the HTTP layer, else the body as text."""
    text = content.decode(errors="replace")
    try:
        fault = json.loads(text, strict=False)  # line breaks are not escaped
    except (ValueError, RecursionError):
        fault = None
    for name in ("fault_message", "error") if isinstance(fault, dict) else ():
        if isinstance(message := fault.get(name), str):
            return message
    return text.strip()
