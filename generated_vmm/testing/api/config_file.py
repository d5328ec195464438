"""A microVM from one JSON file, as `--config-file` has it: the members of GET /vm/config."""

from __future__ import annotations

from pathlib import Path

from generated_vmm.testing.api.operations import carry_out
from generated_vmm.testing.bodies.json_text import Misread, plain, read_json
from generated_vmm.testing.bodies.shapes import fill
from generated_vmm.testing.description import OPERATIONS, Json, config_member
from generated_vmm.testing.machine import Machine
from generated_vmm.testing.rule import Call
from generated_vmm.testing.rules.boot import start

REQUIRED = ("boot-source", "drives")
FIRST = ("machine-config", "cpu-config", "boot-source", "drives", "network-interfaces")


def read_json_file(path: str) -> bytes:
    """The content of a file. Raises `OSError`, and `ValueError` for no path at all."""
    return Path(path).read_bytes()


def configure(machine: Machine, text: bytes) -> None:
    """Configure and start the machine. Raises `Misread` or `Fault` with what is wrong."""
    config = plain(read_json(text))
    if not isinstance(config, dict):
        raise Misread("Invalid JSON: invalid type, expected struct VmmConfig")
    for member in REQUIRED:
        if member not in config:
            raise Misread(f"Invalid JSON: missing field `{member}`")
    for member in sorted(config, key=lambda name: FIRST.index(name) if name in FIRST else 9):
        _set(machine, member, config[member])
    start(machine)


def _set(machine: Machine, member: str, value: Json) -> None:
    for operation in OPERATIONS:
        if operation.method != "PUT" or config_member(operation.path) != member or value is None:
            continue
        for one in value if isinstance(value, list) else [value]:
            body = fill(operation.body or "", one)
            if isinstance(body, dict):
                resource_id = str(body.get(operation.parameter, ""))
                carry_out(machine, Call(operation, resource_id, body))
