"""The simulated monitor as a process: its log, its exit statuses, its guest on the console."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NoReturn, TypeAlias

from generated_vmm.testing.arguments import Arguments, WrongArguments, usage
from generated_vmm.testing.bodies import Misread, Pairs, plain, read_json
from generated_vmm.testing.description import CURRENT
from generated_vmm.testing.host import refusing
from generated_vmm.testing.machine import PAYLOAD_LIMIT, Fault, Machine
from generated_vmm.testing.monitor import SimulatedMonitor
from generated_vmm.testing.operations import carry_out
from generated_vmm.testing.outlets import LEVELS, Outlets
from generated_vmm.testing.rule import Call
from generated_vmm.testing.rules.boot import start
from generated_vmm.testing.rules.services import store_metadata

DEFAULT_SOCKET: Final = "/run/firecracker.socket"
FAILED, BAD_LEVEL, BAD_ARGUMENTS = 1, 152, 153
STDIN, STDOUT = 0, 1
CONFIGURED_FIRST: Final = (
    "machine-config", "cpu-config", "boot-source", "drives", "network-interfaces",
)  # fmt: skip

Prepare: TypeAlias = Callable[[SimulatedMonitor], None]


class Ending(Exception):
    """The process ends with this status and a reason."""

    def __init__(self, why: str, status: int = FAILED) -> None:
        super().__init__(why)
        self.status = status


class Panic(Exception):
    """The program aborts (SIGABRT)."""


def main(given: Sequence[str] | None = None, prepare: Prepare = lambda monitor: None) -> int:
    """Run until the guest ends or a signal comes; the exit status is that of the real program.

    `prepare` is called with the monitor before it listens, to set up its guest.
    """
    outlets = Outlets("anonymous-instance", STDOUT)
    status = 0
    try:
        arguments = Arguments(sys.argv[1:] if given is None else given)
        outlets = Outlets(_instance_id(arguments), None if arguments.has("--socket") else STDOUT)
        _run(arguments, outlets, prepare)
    except WrongArguments as wrong:
        outlets.log(f"Arguments parsing error: {wrong} \\n\\nFor more information try --help.")
        status = _error(BAD_ARGUMENTS, f"ParseArguments({wrong})")
    except Ending as end:
        outlets.log(str(end), level="error")
        status = _error(end.status, str(end))
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


def _run(arguments: Arguments, outlets: Outlets, prepare: Prepare) -> None:
    if arguments.has("--help") or arguments.has("--version"):
        print(f"Firecracker v{CURRENT.version}\n", flush=True)
        print(usage() if arguments.has("--help") else "", end="", flush=True)
        return
    _open_log(arguments, outlets)
    outlets.log(f"Running Firecracker v{CURRENT.version}")
    metrics = arguments.get("--metrics-path")
    why = "Cannot initialize the metrics system due to bad user input: {}"
    with refusing(f"Could not initialize metrics: {why}", Ending):
        if metrics is not None:
            outlets.open_metrics(metrics)
    _serve(arguments, outlets, prepare)


def _instance_id(arguments: Arguments) -> str:
    given = arguments.get("--id") or "anonymous-instance"
    if re.fullmatch(r"[A-Za-z0-9-]{1,64}", given) is None:
        raise Panic(f"Invalid instance ID: {given!r}")
    return given


def _open_log(arguments: Arguments, outlets: Outlets) -> None:
    level = (arguments.get("--level") or "info").lower().replace("warning", "warn")
    if level not in LEVELS:
        why = f"Invalid value for logger level: Failed to parse string to level filter: {level}."
        raise Ending(f"{why}Possible values: [Error, Warning, Info, Debug]", BAD_LEVEL)
    path = arguments.get("--log-path")
    with refusing("Could not initialize logger: Failed to open target file: {}", Ending):
        if path is not None:
            outlets.open_log(path)
    outlets.level, outlets.module = level, arguments.get("--module") or ""
    outlets.show_level = arguments.has("--show-level")
    outlets.show_origin = arguments.has("--show-log-origin")


def _content(arguments: Arguments, name: str, what: str) -> bytes | None:
    """The content of a file that an argument names; None without the argument."""
    path = arguments.get(name)
    with refusing(f"Unable to open or read from the {what} file: {{}}", Panic):
        return None if path is None else Path(path).read_bytes()


def _size(arguments: Arguments, name: str, default: int) -> int:
    given = arguments.get(name) or str(default)
    if re.fullmatch(r"\+?[0-9]{1,18}", given) is None:
        raise Panic(f"'{name[2:]}' parameter expected to be of 'usize' type.: {given!r}")
    return int(given)


def _serve(arguments: Arguments, outlets: Outlets, prepare: Prepare) -> None:
    config = _content(arguments, "--config-file", "configuration")
    metadata = _content(arguments, "--metadata", "mmds content")
    limit = _size(arguments, "--http-api-max-payload-size", PAYLOAD_LIMIT)
    monitor = SimulatedMonitor(
        arguments.get("--socket") or arguments.get("--api-sock") or DEFAULT_SOCKET,
        check_files=not arguments.has("--any-path"),
        enable_pci=arguments.has("--enable-pci"),
        instance_id=_instance_id(arguments),
        payload_limit=limit,
        mmds_size_limit=_size(arguments, "--mmds-size-limit", limit),
        outlets=outlets,
    )
    prepare(monitor)
    status: int | None = FAILED
    try:
        _listen(monitor, arguments, outlets)
        _fill(monitor.machine, outlets, config, metadata)
        threading.Thread(target=_listen_to_stdin, args=(monitor,), daemon=True).start()
        status = _wait(monitor, arguments)
    finally:
        monitor.stop(keep_socket=status is not None)
    if status:
        raise Ending("RunWithApiError error: Failed to build MicroVM: Loading snapshot failed..")


def _listen(monitor: SimulatedMonitor, arguments: Arguments, outlets: Outlets) -> None:
    if not arguments.has("--no-api"):
        try:
            monitor.listen()
        except OSError as error:
            raise Ending(f"RunWithApiError error: {error.strerror or error}") from None
        outlets.log(f'Listening on API socket ("{monitor.socket_path}").')
        outlets.log("API server started.", thread="fc_api")
    # A signal kills the process, as with the real one, unless it was started with `--socket`.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if arguments.has("--socket"):
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: monitor.interrupt())
        print(f"Simulated monitor listening on {monitor.socket_path}", flush=True)
    outlets.console = _to_stdout


def _wait(monitor: SimulatedMonitor, arguments: Arguments) -> int | None:
    """The exit code of the guest; None if a signal has ended it."""
    if not arguments.has("--no-api"):
        return monitor.serve()
    signal.pause()
    return None


def _fill(machine: Machine, outlets: Outlets, config: bytes | None, metadata: bytes | None) -> None:
    try:
        if metadata is not None:
            store_metadata(machine, plain(read_json(metadata)))
    except (Misread, Fault) as fault:
        raise Panic(f"MMDS error: metadata provided not valid json: {fault}") from None
    try:
        if config is not None:
            configure(machine, config)
            outlets.log("Successfully started microvm that was configured from one single json")
    except (Misread, Fault) as fault:
        raise Ending(
            "RunWithApiError error: Failed to build MicroVM from Json: "
            f"Configuration for VMM from one single json failed: {fault}"
        ) from None


def configure(machine: Machine, text: bytes) -> None:
    """Configure and start the machine from the members of GET /vm/config.

    Raises `Misread` or `Fault` for a wrong configuration.
    """
    read = read_json(text)
    if not isinstance(read, Pairs):
        raise Misread("Invalid JSON: invalid type, expected struct VmmConfig")
    config = dict(read)
    for member in ("boot-source", "drives"):
        if member in machine.options.description.shown and member not in config:
            raise Misread(f"Invalid JSON: missing field `{member}`")
    order = [*(name for name in CONFIGURED_FIRST if name in config), *config]
    for member in dict.fromkeys(order):
        path, _ = machine.options.description.shown.get(member, ("", False))
        operation = machine.options.description.resources.get(path)
        value = config[member]
        if operation is not None and value is not None:
            for one in value if isinstance(value, list) else [value]:
                body = machine.bodies.take({"ref": operation.body}, one)
                assert isinstance(body, dict)
                carry_out(machine, Call(operation, path, str(body.get(operation.parameter)), body))
    start(machine)


def _to_stdout(content: bytes) -> None:
    with contextlib.suppress(OSError):
        os.write(STDOUT, content)


def _listen_to_stdin(monitor: SimulatedMonitor) -> None:
    with contextlib.suppress(OSError):
        while content := os.read(STDIN, 4096):
            monitor.machine.hear(content)
