"""The simulated monitor as a process: its log, its exit statuses, its guest on the console."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import signal
import sys
import threading
from collections.abc import Sequence
from typing import Final, NoReturn

from generated_vmm.testing.api.config_file import configure, read_json_file
from generated_vmm.testing.arguments import Arguments, WrongArguments, usage
from generated_vmm.testing.bodies.json_text import Misread, plain, read_json
from generated_vmm.testing.description import VERSION
from generated_vmm.testing.machine import PAYLOAD_LIMIT, Fault
from generated_vmm.testing.monitor import SimulatedMonitor
from generated_vmm.testing.outlets import LEVELS, Outlets
from generated_vmm.testing.rules.host_files import open_fault, system_reason
from generated_vmm.testing.rules.mmds import store
from generated_vmm.testing.rules.snapshots import SNAPSHOT_VERSION, is_snapshot

DEFAULT_SOCKET: Final = "/run/firecracker.socket"
FAILED: Final = 1
BAD_LEVEL: Final = 152
BAD_ARGUMENTS: Final = 153
STDIN, STDOUT = 0, 1


class Ending(Exception):
    """The process ends with this status, and says why."""

    def __init__(self, status: int, why: str = "") -> None:
        super().__init__(why)
        self.status = status


class Panic(Exception):
    """The program breaks off (SIGABRT)."""


def main(given: Sequence[str] | None = None) -> int:
    """Run until the guest ends or a signal comes; the exit status is the real program's."""
    outlets = Outlets("anonymous-instance", STDOUT)
    try:
        arguments = Arguments(sys.argv[1:] if given is None else given)
        outlets = Outlets(_instance_id(arguments), None if arguments.has("--socket") else STDOUT)
        status = _run(arguments, outlets)
    except WrongArguments as wrong:
        outlets.log(f"Arguments parsing error: {wrong} \\n\\nFor more information try --help.")
        status = _error(BAD_ARGUMENTS, f"ParseArguments({wrong})")
    except Ending as ending:
        outlets.log(str(ending), level="error")
        status = _error(ending.status, str(ending))
    except Panic as panic:
        outlets.log(f"Firecracker panicked at generated_vmm/testing:\n{panic}", level="error")
        _abort()
    how = "successfully" if status == 0 else "with error"
    outlets.log(
        f"Firecracker exiting {how}. exit_code={status}", level="info" if not status else "error"
    )
    return status


def _error(status: int, why: str) -> int:
    print(f"Error: {why}", file=sys.stderr, flush=True)
    return status


def _abort() -> NoReturn:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.stderr.flush()
    os.abort()


def _run(arguments: Arguments, outlets: Outlets) -> int:
    if arguments.has("--help") or arguments.has("--version"):
        print(f"Firecracker v{VERSION}\n", flush=True)
        print(usage() if arguments.has("--help") else "", end="", flush=True)
        return 0
    _open_log(arguments, outlets)
    if arguments.has("--snapshot-version"):
        print(SNAPSHOT_VERSION, flush=True)
        return 0
    if arguments.has("--describe-snapshot"):
        return _describe_snapshot(arguments.get("--describe-snapshot") or "")
    outlets.log(f"Running Firecracker v{VERSION}")
    _open_metrics(arguments, outlets)
    return _serve(arguments, outlets)


def _instance_id(arguments: Arguments) -> str:
    given = arguments.get("--id") or "anonymous-instance"
    if re.fullmatch(r"[A-Za-z0-9-]{1,64}", given) is None:
        raise Panic(f"Invalid instance ID: {given!r}")
    return given


def _open_log(arguments: Arguments, outlets: Outlets) -> None:
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


def _open_metrics(arguments: Arguments, outlets: Outlets) -> None:
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


def _describe_snapshot(path: str) -> int:
    reason = open_fault(path)
    if reason or not is_snapshot(path):
        raise Ending(
            FAILED,
            "When printing Snapshot Data format: "
            + (f"Unable to open snapshot state file: {reason}" if reason else "Invalid format"),
        )
    print(SNAPSHOT_VERSION, flush=True)
    return 0


def _serve(arguments: Arguments, outlets: Outlets) -> int:
    config = _file(arguments, "--config-file", "configuration")
    metadata = _file(arguments, "--metadata", "mmds content")
    limit = _size(arguments, "--http-api-max-payload-size") or PAYLOAD_LIMIT
    monitor = SimulatedMonitor(
        arguments.get("--socket") or arguments.get("--api-sock") or DEFAULT_SOCKET,
        check_files=not arguments.has("--any-path"),
        enable_pci=arguments.has("--enable-pci"),
        instance_id=_instance_id(arguments),
        payload_limit=limit,
        mmds_size_limit=_size(arguments, "--mmds-size-limit") or limit,
        outlets=outlets,
    )
    _require_filter(arguments)
    if not arguments.has("--no-api"):
        _listen(monitor, outlets)
    outlets.console = _to_stdout
    if metadata is not None:
        _give_metadata(monitor, metadata)
    if config is not None:
        _boot(monitor, config, outlets)
    threading.Thread(target=_listen_to_stdin, args=(monitor,), daemon=True).start()
    if arguments.has("--no-api"):
        signal.pause()
    return _until_the_end(monitor, arguments)


def _until_the_end(monitor: SimulatedMonitor, arguments: Arguments) -> int:
    if arguments.has("--socket"):
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: monitor.interrupt())
        print(f"Simulated monitor listening on {monitor.socket_path}", flush=True)
    else:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    status = monitor.serve()
    if status is None:
        monitor.stop()
    if status:
        raise Ending(
            FAILED, "RunWithApiError error: Failed to build MicroVM: Loading snapshot failed.."
        )
    return 0


def _file(arguments: Arguments, name: str, what: str) -> bytes | None:
    path = arguments.get(name)
    try:
        return None if path is None else read_json_file(path)
    except (OSError, ValueError) as error:
        raise Panic(
            f"Unable to open or read from the {what} file: {system_reason(error)}"
        ) from None


def _size(arguments: Arguments, name: str) -> int | None:
    given = arguments.get(name)
    if given is not None and re.fullmatch(r"\+?[0-9]{1,18}", given) is None:
        raise Panic(f"'{name[2:]}' parameter expected to be of 'usize' type.: {given!r}")
    return None if given is None else int(given)


def _require_filter(arguments: Arguments) -> None:
    path = arguments.get("--seccomp-filter")
    reason = "" if path is None else open_fault(path)
    if reason:
        raise Ending(FAILED, f"Seccomp error: Filter file open error: {reason}")


def _listen(monitor: SimulatedMonitor, outlets: Outlets) -> None:
    try:
        monitor.listen()
    except OSError as error:
        raise Ending(FAILED, f"RunWithApiError error: {error.strerror or error}") from None
    outlets.log(f'Listening on API socket ("{monitor.socket_path}").')
    outlets.log("API server started.", thread="fc_api")


def _give_metadata(monitor: SimulatedMonitor, text: bytes) -> None:
    try:
        store(monitor.machine, plain(read_json(text)))
    except (Misread, Fault) as fault:
        raise Panic(f"MMDS error: metadata provided not valid json: {fault}") from None


def _boot(monitor: SimulatedMonitor, config: bytes, outlets: Outlets) -> None:
    try:
        configure(monitor.machine, config)
    except (Misread, Fault) as fault:
        raise Ending(
            FAILED,
            "RunWithApiError error: Failed to build MicroVM from Json: "
            f"Configuration for VMM from one single json failed: {fault}",
        ) from None
    outlets.log("Successfully started microvm that was configured from one single json")


def _to_stdout(content: bytes) -> None:
    with contextlib.suppress(OSError):
        os.write(STDOUT, content)


def _listen_to_stdin(monitor: SimulatedMonitor) -> None:
    with contextlib.suppress(OSError):
        while content := os.read(STDIN, 4096):
            monitor.machine.hear(content)
