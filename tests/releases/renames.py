"""What a release that renames a field, or removes a call, does to each layer of the client.

For every field of the committed description, renamed alone, every call removed alone, and the
fields whose removal is announced: either `make codegen` stops with the line to edit, or the facade
and the console work with what it made. `tests/vmm/simulator` tries the simulated monitor alone.
"""

import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from codegen.document import Unusable, operations_of
from codegen.generate import put_together, try_out
from codegen.pipeline import make
from codegen.requirements import CORE
from tests.vmm.codegen.descriptions import PROJECT, committed, write

Change: TypeAlias = Callable[[dict[str, Any]], None]

# Deprecated by the monitor, to go with its next major version.
ANNOUNCED = (
    ("MachineConfiguration", "cpu_template"),
    ("SnapshotLoadParams", "enable_diff_snapshots"),
    ("SnapshotLoadParams", "mem_file_path"),
    ("Vsock", "vsock_id"),
)
LAYERS = ("facade", "console")
SCRIPT = Path(__file__).with_name("layers.py")
AT_A_LINE = re.compile(r"\S+:\d+: ")
WORKS, STOPS = "works", "stops"


@dataclass(frozen=True)
class Result:
    """What became of one change: of codegen, then of each layer with what it made."""

    name: str
    said: dict[str, str]

    @property
    def failed(self) -> list[str]:
        """The layers that neither work nor are named by codegen."""
        return [layer for layer, verdict in self.said.items() if verdict not in (WORKS, STOPS)]

    def __str__(self) -> str:
        verdicts = ", ".join(f"{layer} {verdict}" for layer, verdict in self.said.items())
        return f"{self.name}: {verdicts}"


def main(only: Sequence[str]) -> int:
    """Try every change whose name has one of the words, and return the exit status."""
    results = []
    for name, change in changes():
        if not only or any(word in name for word in only):
            results.append(tried(name, change))
            print(results[-1], flush=True)
    for layer in ("codegen", *LAYERS):
        fallen = [result.name for result in results if layer in result.failed]
        print(f"{layer}: {len(fallen)} of {len(results)} fail {', '.join(fallen)}".rstrip())
    return 1 if any(result.failed for result in results) else 0


def changes() -> Iterator[tuple[str, Change]]:
    """Each change with its name."""
    for schema, described in committed()["components"]["schemas"].items():
        for field in described.get("properties", {}):
            yield f"{schema}.{field} renamed", partial(rename, schema=schema, field=field)
    for path, method, operation in operations_of(committed()):
        if operation["operationId"] not in CORE:
            name = f"{method.upper()} {path}"
            yield f"{name} removed", partial(remove_operation, path=path, method=method)
    for schema, field in ANNOUNCED:
        yield f"{schema}.{field} removed", partial(remove, schema=schema, field=field)
    yield "all that are announced removed", remove_announced


def rename(document: dict[str, Any], schema: str, field: str) -> None:
    """The field has another name, in its place."""
    found = document["components"]["schemas"][schema]
    new = f"{field}_of_now"
    found["properties"] = {
        new if name == field else name: member for name, member in found["properties"].items()
    }
    if field in found.get("required", []):
        found["required"][found["required"].index(field)] = new


def remove(document: dict[str, Any], schema: str, field: str) -> None:
    """The field is gone."""
    found = document["components"]["schemas"][schema]
    found["properties"].pop(field, None)
    found["required"] = [name for name in found.get("required", []) if name != field]


def remove_operation(document: dict[str, Any], path: str, method: str) -> None:
    """The call is gone."""
    del document["paths"][path][method]


def remove_announced(document: dict[str, Any]) -> None:
    """All fields are gone whose removal is announced."""
    for schema, field in ANNOUNCED:
        remove(document, schema, field)


def tried(name: str, change: Change) -> Result:
    """What becomes of the change."""
    document = committed()
    change(document)
    with tempfile.TemporaryDirectory(prefix="renames-") as scratch:
        folder = Path(scratch)
        try:
            run = make(PROJECT, write(document, folder), folder / "made")
            try_out(run.folder, PROJECT.parts, PROJECT.written, PROJECT.mypy_cache)
        except Unusable as refused:
            named = AT_A_LINE.match(str(refused))
            return Result(name, {"codegen": STOPS if named else f"says no line: {refused}"})
        put_together(run.folder, PROJECT.parts, PROJECT.written, folder / "generated_vmm")
        return Result(name, {"codegen": WORKS} | {layer: _run(layer, folder) for layer in LAYERS})


def _run(layer: str, folder: Path) -> str:
    """Whether a layer works, in a process that has the package of this folder."""
    code = f"import runpy, sys; sys.path[:0] = {[str(folder), str(PROJECT.root)]}\n"
    code += f"runpy.run_path({str(SCRIPT)!r})['try_{layer}']({str(folder)!r})"
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=False, timeout=120
    )
    said = (done.stderr or "failed").strip().splitlines()
    return WORKS if done.returncode == 0 else f"FAILS: {said[-1][:200]}"
