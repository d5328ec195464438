"""What the program does with its arguments before it serves, and how it ends when it cannot."""

from __future__ import annotations

import re
from typing import Final

from generated_vmm.testing.api.config_file import read_json_file
from generated_vmm.testing.arguments import Arguments
from generated_vmm.testing.outlets import LEVELS, Outlets
from generated_vmm.testing.rules.host_files import open_fault, system_reason
from generated_vmm.testing.rules.snapshots import SNAPSHOT_VERSION, is_snapshot

FAILED: Final = 1
BAD_LEVEL: Final = 152


class Ending(Exception):
    """The process ends with this status, and says why."""

    def __init__(self, status: int, why: str = "") -> None:
        super().__init__(why)
        self.status = status


class Panic(Exception):
    """The program breaks off (SIGABRT)."""


def instance_id(arguments: Arguments) -> str:
    """The name of the microVM. Raises `Panic` for one that no monitor takes."""
    given = arguments.get("--id") or "anonymous-instance"
    if re.fullmatch(r"[A-Za-z0-9-]{1,64}", given) is None:
        raise Panic(f"Invalid instance ID: {given!r}")
    return given


def open_log(arguments: Arguments, outlets: Outlets) -> None:
    """Set the log up as asked. Raises `Ending`."""
    level = (arguments.get("--level") or "info").lower().replace("warning", "warn")
    if level not in LEVELS:
        raise Ending(
            BAD_LEVEL,
            f"Invalid value for logger level: Failed to parse string to level filter: {level}."
            "Possible values: [Error, Warning, Info, Debug]",
        )
    path = arguments.get("--log-path")
    try:
        if path is not None:
            outlets.open_log(path)
    except (OSError, ValueError) as error:
        reason = system_reason(error)
        raise Ending(
            FAILED, f"Could not initialize logger: Failed to open target file: {reason}"
        ) from None
    outlets.level, outlets.module = level, arguments.get("--module") or ""
    outlets.show_level = arguments.has("--show-level")
    outlets.show_origin = arguments.has("--show-log-origin")


def open_metrics(arguments: Arguments, outlets: Outlets) -> None:
    """Set the metrics up as asked. Raises `Ending`."""
    path = arguments.get("--metrics-path")
    try:
        if path is not None:
            outlets.open_metrics(path)
    except (OSError, ValueError) as error:
        raise Ending(
            FAILED,
            "Could not initialize metrics: Cannot initialize the metrics system due to bad user "
            f"input: {system_reason(error)}",
        ) from None


def describe_snapshot(path: str) -> int:
    """Print the version of a snapshot. Raises `Ending` when the file is none."""
    reason = open_fault(path)
    if reason or not is_snapshot(path):
        raise Ending(
            FAILED,
            "When printing Snapshot Data format: "
            + (f"Unable to open snapshot state file: {reason}" if reason else "Invalid format"),
        )
    print(SNAPSHOT_VERSION, flush=True)
    return 0


def read_file(arguments: Arguments, name: str, what: str) -> bytes | None:
    """The content of a file that an argument names; None without it. Raises `Panic`."""
    path = arguments.get(name)
    try:
        return None if path is None else read_json_file(path)
    except (OSError, ValueError) as error:
        raise Panic(
            f"Unable to open or read from the {what} file: {system_reason(error)}"
        ) from None


def size_in(arguments: Arguments, name: str, default: int) -> int:
    """The number an argument has, or the default. Raises `Panic`."""
    given = arguments.get(name)
    if given is None:
        return default
    if re.fullmatch(r"\+?[0-9]{1,18}", given) is None:
        raise Panic(f"'{name[2:]}' parameter expected to be of 'usize' type.: {given!r}")
    return int(given)


def require_filter(arguments: Arguments) -> None:
    """Refuse a filter file that cannot be opened. Raises `Ending`."""
    path = arguments.get("--seccomp-filter")
    reason = "" if path is None else open_fault(path)
    if reason:
        raise Ending(FAILED, f"Seccomp error: Filter file open error: {reason}")
