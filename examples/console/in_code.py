"""The Python that makes the same machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from textwrap import indent

from pydantic import BaseModel

import generated_vmm.machines
from generated_vmm.machines import Definition
from generated_vmm.machines.definition import with_files


def python_of(name: str, definition: Definition, folder: Path) -> str:
    """A program that makes the same machine as one of this definition with its own `folder`.

    It leaves out the metadata, which is secret.
    """
    used: set[str] = set()
    files = with_files(definition.configuration, lambda file: str(folder / file.path))
    made = _source(definition.replace(configuration=files, metadata=None), used)
    own = {one for one in used if one in generated_vmm.machines.__all__}
    body = indent(f"machine = machines.create({name!r}, {made})\nmachine.start()", "    ")
    return (
        f"from generated_vmm import {', '.join(sorted(used - own))}\n"
        f"from generated_vmm.machines import {', '.join(sorted({*own, 'Machines'}))}\n\n"
        f'with Machines("machines") as machines:\n{body}\n'
    )


def _source(value: object, used: set[str]) -> str:
    """A value as an expression; the names of models go into `used`."""
    if isinstance(value, list | tuple):
        ends = "[]" if isinstance(value, list) else "()"
        return _lines(ends, [_source(one, used) for one in value])
    if not isinstance(value, BaseModel):
        return repr(value)
    kind, shown = type(value), value.model_dump(exclude_defaults=True)
    used.add(kind.__name__)
    members = [f"{name}={_source(one, used)}" for name, one in value if name in shown]
    return kind.__name__ + _lines("()", members)


def _lines(ends: str, parts: Sequence[str]) -> str:
    content = indent(",\n".join([*parts, ""]), "    ")
    return f"{ends[0]}\n{content}{ends[1]}" if parts else ends
