"""The simulated monitor as a process: its log, its exit statuses, its guest on the console."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Final, NoReturn, TypeAlias

from generated_vmm.testing.api.config_file import configure
from generated_vmm.testing.arguments import Arguments, WrongArguments, usage
from generated_vmm.testing.bodies.json_text import Misread, plain, read_json
from generated_vmm.testing.description import VERSION
from generated_vmm.testing.machine import PAYLOAD_LIMIT, Fault
from generated_vmm.testing.monitor import SimulatedMonitor
from generated_vmm.testing.outlets import Outlets
from generated_vmm.testing.preparation import (
    FAILED,
    Ending,
    Panic,
    describe_snapshot,
    instance_id,
    open_log,
    open_metrics,
    read_file,
    require_filter,
    size_in,
)
from generated_vmm.testing.rules.mmds import store
from generated_vmm.testing.rules.snapshots import SNAPSHOT_VERSION

DEFAULT_SOCKET: Final = "/run/firecracker.socket"
BAD_ARGUMENTS: Final = 153
STDIN, STDOUT = 0, 1

Prepare: TypeAlias = Callable[[SimulatedMonitor], None]


def main(given: Sequence[str] | None = None, prepare: Prepare = lambda monitor: None) -> int:
    """Run until the guest ends or a signal comes; the exit status is the real program's.

    `prepare` is given the monitor before it listens, to set up its guest.
    """
    outlets = Outlets("anonymous-instance", STDOUT)
    try:
        arguments = Arguments(sys.argv[1:] if given is None else given)
        outlets = Outlets(instance_id(arguments), None if arguments.has("--socket") else STDOUT)
        status = _run(arguments, outlets, prepare)
    except WrongArguments as wrong:
        outlets.log(f"Arguments parsing error: {wrong} \\n\\nFor more information try --help.")
        status = _error(BAD_ARGUMENTS, f"ParseArguments({wrong})")
    except Ending as ending:
        outlets.log(str(ending), level="error")
        status = _error(ending.status, str(ending))
    except Panic as panic:
        outlets.log(f"Firecracker panicked at generated_vmm/testing:\n{panic}", level="error")
        _abort()
    how, level = ("with error", "error") if status else ("successfully", "info")
    outlets.log(f"Firecracker exiting {how}. exit_code={status}", level=level)
    outlets.close()
    return status


def _error(status: int, why: str) -> int:
    print(f"Error: {why}", file=sys.stderr, flush=True)
    return status


def _abort() -> NoReturn:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.stderr.flush()
    os.abort()


def _run(arguments: Arguments, outlets: Outlets, prepare: Prepare) -> int:
    if arguments.has("--help") or arguments.has("--version"):
        print(f"Firecracker v{VERSION}\n", flush=True)
        print(usage() if arguments.has("--help") else "", end="", flush=True)
        return 0
    open_log(arguments, outlets)
    if arguments.has("--snapshot-version"):
        print(SNAPSHOT_VERSION, flush=True)
        return 0
    if arguments.has("--describe-snapshot"):
        return describe_snapshot(arguments.get("--describe-snapshot") or "")
    outlets.log(f"Running Firecracker v{VERSION}")
    open_metrics(arguments, outlets)
    return _serve(arguments, outlets, prepare)


def _serve(arguments: Arguments, outlets: Outlets, prepare: Prepare) -> int:
    config = read_file(arguments, "--config-file", "configuration")
    metadata = read_file(arguments, "--metadata", "mmds content")
    limit = size_in(arguments, "--http-api-max-payload-size", PAYLOAD_LIMIT)
    monitor = SimulatedMonitor(
        arguments.get("--socket") or arguments.get("--api-sock") or DEFAULT_SOCKET,
        check_files=not arguments.has("--any-path"),
        enable_pci=arguments.has("--enable-pci"),
        instance_id=instance_id(arguments),
        payload_limit=limit,
        mmds_size_limit=size_in(arguments, "--mmds-size-limit", limit),
        outlets=outlets,
    )
    require_filter(arguments)
    prepare(monitor)
    try:
        status = _run_guest(monitor, arguments, outlets, config, metadata)
    except BaseException:
        monitor.stop(keep_socket=True)
        raise
    monitor.stop(keep_socket=status is not None)
    if status:
        why = "RunWithApiError error: Failed to build MicroVM: Loading snapshot failed.."
        raise Ending(status, why)
    return 0


def _run_guest(
    monitor: SimulatedMonitor,
    arguments: Arguments,
    outlets: Outlets,
    config: bytes | None,
    metadata: bytes | None,
) -> int | None:
    """The exit code of the guest; None when a signal has ended it."""
    if not arguments.has("--no-api"):
        _listen(monitor, outlets)
    _react_to_signals(monitor, arguments)
    outlets.console = _to_stdout
    if metadata is not None:
        _give_metadata(monitor, metadata)
    if config is not None:
        _boot(monitor, config, outlets)
    threading.Thread(target=_listen_to_stdin, args=(monitor,), daemon=True).start()
    if not arguments.has("--no-api"):
        return monitor.serve()
    signal.pause()
    return None


def _react_to_signals(monitor: SimulatedMonitor, arguments: Arguments) -> None:
    """A signal kills the process, as it does the real one, unless it was started our own way."""
    if not arguments.has("--socket"):
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        return
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: monitor.interrupt())
    print(f"Simulated monitor listening on {monitor.socket_path}", flush=True)


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
