"""Where the microVM lets things out: logger, metrics, serial console, vsock; and its entropy."""

from __future__ import annotations

import os
from typing import Final

from generated_vmm.testing.machine import Fault, Machine, Members
from generated_vmm.testing.rule import Call, rule
from generated_vmm.testing.rules.devices import effective
from generated_vmm.testing.rules.host_files import NUL_IN_SOCKET, system_reason
from generated_vmm.testing.wire.vsock import VsockBackend

LONGEST_SOCKET_PATH: Final = 107
NO_METRICS: Final = "Metrics error: Cannot initialize the metrics system due to bad user input: {}"
NO_VSOCK: Final = "Vsock config error: Cannot create backend for vsock device: "
NOT_BOUND: Final = "Error binding to the host-side Unix socket: "


@rule("PUT /logger")
def put_logger(machine: Machine, call: Call) -> None:
    """May be repeated; an absent level is Info, other absent settings stay."""
    outlets, body = machine.outlets, call.body
    outlets.module = outlets.module if body["module"] is None else body["module"]
    outlets.level = (body["level"] or "info").replace("warning", "warn")
    if body["show_level"] is not None:
        outlets.show_level = body["show_level"]
    if body["show_log_origin"] is not None:
        outlets.show_origin = body["show_log_origin"]
    if body["log_path"] is None or not machine.options.check_files:
        return
    try:
        outlets.open_log(body["log_path"])
    except (OSError, ValueError) as error:
        raise Fault(f"Logger error: Failed to open target file: {system_reason(error)}") from None


@rule("PUT /metrics")
def put_metrics(machine: Machine, call: Call) -> None:
    """Once per process."""
    path = call.body["metrics_path"] if machine.options.check_files else os.devnull
    try:
        machine.outlets.open_metrics(path)
    except RuntimeError as error:
        raise Fault(NO_METRICS.format(error)) from None
    except (OSError, ValueError) as error:
        raise Fault(NO_METRICS.format(system_reason(error))) from None


@rule("PUT /serial")
def put_serial(machine: Machine, call: Call) -> None:
    """The file is opened when the guest starts."""
    machine.serial_path = call.body["serial_out_path"]


@rule("PUT /entropy")
def put_entropy(machine: Machine, call: Call) -> None:
    """A source of random numbers for the guest."""
    limiter = effective(call.body["rate_limiter"])
    machine.config["entropy"] = call.body | {"rate_limiter": limiter}


@rule("PUT /vsock")
def put_vsock(machine: Machine, call: Call) -> None:
    """Binds the path now; a device there was before goes first, with its socket's file."""
    former, machine.vsock_backend = machine.vsock_backend, None
    machine.config["vsock"] = None
    try:
        if former is not None:
            former.close(remove_file=True)
    except OSError as error:
        raise Fault(f"{NO_VSOCK}{NOT_BOUND}{system_reason(error)}") from None
    bind_vsock(machine, call.body, NO_VSOCK)


def bind_vsock(machine: Machine, vsock: Members, refusal: str) -> None:
    """Bind the host's side of the device. Raises `Fault` that begins with the refusal."""
    path = vsock["uds_path"]
    reason = "path must be shorter than SUN_LEN" if len(path) > LONGEST_SOCKET_PATH else ""
    if "\0" in path:
        reason = NUL_IN_SOCKET
    if reason:
        raise Fault(f"{refusal}{NOT_BOUND}{reason}")
    try:
        machine.vsock_backend = VsockBackend(path, machine.guest.service)
    except OSError as error:
        raise Fault(f"{refusal}{NOT_BOUND}{system_reason(error)}") from None
    machine.config["vsock"] = {key: vsock[key] for key in vsock if key != "vsock_id"}
