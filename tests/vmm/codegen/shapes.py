"""Every shape of description that there is something to generate from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.vmm.codegen.descriptions import committed, published, swagger, write
from tests.vmm.codegen.releases import before, release, release_1_17, unlike_any_release

# 1.7 has the faults of all later releases too; the last one is in OpenAPI 3.1.
SHAPES: dict[str, Callable[[], dict[str, Any]]] = {
    "committed": committed,
    "swagger": swagger,
    "older": lambda: before("1.14.4"),
    "release_1_7": lambda: release("1.7.0"),
    "release_1_17": release_1_17,
    "unlike_any_release": unlike_any_release,
}


def spec_file(shape: str, folder: Path) -> Path:
    """The file of a shape: one of `SHAPES`, or the name of a published file."""
    found = [path for path in published() if path.stem == shape]
    return found[0] if found else write(SHAPES[shape](), folder, shape)


def all_shapes() -> list[str]:
    """Every shape that there is something to generate from."""
    return [*SHAPES, *(path.stem for path in published())]
