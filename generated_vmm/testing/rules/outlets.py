"""Where the microVM lets things out: logger, metrics, serial console, vsock; and its entropy."""

from __future__ import annotations

from dataclasses import replace

from generated_vmm.testing.bodies import machine as bodies
from generated_vmm.testing.bodies.devices import Entropy, Vsock
from generated_vmm.testing.machine import Fault, Machine
from generated_vmm.testing.rules.host_files import create_file, system_reason
from generated_vmm.testing.rules.rate_limits import effective
from generated_vmm.testing.wire.vsock import VsockBackend


def put_logger(machine: Machine, body: bodies.Logger) -> None:
    """PUT /logger: may be repeated; a missing log file is made, but nothing is written to it."""
    if body.log_path is not None:
        create_file(machine.options, body.log_path, "Logger error: Failed to open target file: {}")


def put_metrics(machine: Machine, body: bodies.Metrics) -> None:
    """PUT /metrics: once per process; a missing file is made, but nothing is written to it."""
    refusal = "Metrics error: Cannot initialize the metrics system due to bad user input: {}"
    if machine.has_metrics:
        raise Fault(refusal.format("Reinitialization of metrics not allowed."))
    create_file(machine.options, body.metrics_path, refusal)
    machine.has_metrics = True


def put_serial(machine: Machine, body: bodies.Serial) -> None:
    """PUT /serial: accepted as it is; the simulated guest prints nothing."""


def put_entropy(machine: Machine, body: Entropy) -> None:
    """PUT /entropy."""
    machine.resources = replace(
        machine.resources, entropy=replace(body, rate_limiter=effective(body.rate_limiter))
    )


def put_vsock(machine: Machine, body: Vsock) -> None:
    """PUT /vsock: binds the path now; a device there was before is taken away first."""
    if machine.vsock_backend is not None:
        machine.vsock_backend.close(remove_file=True)
    machine.vsock_backend = None
    machine.resources = replace(machine.resources, vsock=None)
    bind_vsock(machine, body, "Vsock config error: Cannot create backend for vsock device: {}")


def bind_vsock(machine: Machine, vsock: Vsock, refusal: str) -> None:
    """Bind the host's side of the device. Raises `Fault` with the reason put into the refusal."""
    try:
        backend = VsockBackend(vsock.uds_path, machine.guest.service)
    except OSError as error:
        reason = f"Error binding to the host-side Unix socket: {system_reason(error)}"
        raise Fault(refusal.format(reason)) from None
    machine.vsock_backend = backend
    machine.resources = replace(machine.resources, vsock=vsock)
