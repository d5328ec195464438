"""Running the generator with our templates, ruff, and a trial of the result."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from codegen.describe import for_generator
from codegen.document import TEACH, Document, Unusable
from codegen.requirements import CORE

HERE = Path(__file__).parent


def generate_package(document: Document, target: Path, core: Mapping[str, str] = CORE) -> None:
    """Write the package for a described API into the new folder `target`, not yet formatted.

    `core` are the calls that it must have, by operationId.

    Raises `Unusable` if the generator gives any warning: it would omit that part.
    """
    with tempfile.TemporaryDirectory(prefix="codegen-") as scratch:
        source, made = Path(scratch, "openapi.json"), Path(scratch, "made")
        source.write_text(json.dumps(for_generator(document, core)), encoding="utf-8")
        _run_generator(source, made)
        target.mkdir(parents=True)
        shutil.copy(made / "__init__.py", target)
        shutil.copy(made / "api" / "__init__.py", target / "operations.py")
        shutil.copytree(made / "models", target / "models")


def format_package(*folders: Path) -> None:
    """Format generated files with ruff."""
    arguments = ["--no-cache", "--quiet", "--config", str(HERE / "ruff_generated.toml")]
    arguments += map(str, folders)
    _run("ruff", "check", "--fix-only", *arguments)
    _run("ruff", "format", *arguments)
    _run("ruff", "check", *arguments)


def _run_generator(source: Path, made: Path) -> None:
    _run(
        "openapi_python_client", "generate",
        "--path", str(source),
        "--output-path", str(made),
        "--meta", "none",
        "--config", str(HERE / "config.yml"),
        "--custom-template-path", str(HERE / "templates"),
        "--fail-on-warning",
    )  # fmt: skip


def _run(module: str, *arguments: str) -> None:
    """Run a tool of this environment; the one on PATH may be another version."""
    done = subprocess.run(  # noqa: S603  # the program and its arguments are ours
        [sys.executable, "-m", module, *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode:
        said = " ".join((done.stderr + done.stdout).split())
        raise Unusable(f"{module} failed: {said[:500]}", "", TEACH)


CONFIG = Path(__file__).with_name("mypy_trial.ini")

# Isolated, so that no environment variable leads to another package of the same name.
IMPORT_ALL = """
import importlib, pkgutil, sys
sys.path.insert(0, sys.argv[1])
import generated_vmm
for module in pkgutil.walk_packages(generated_vmm.__path__, "generated_vmm."):
    if not module.name.endswith(".__main__"):
        importlib.import_module(module.name)
"""


# This makes its forms, each of which refuses names that its model has in no release.
IMPORT_CONSOLE = """
import sys
sys.path.insert(0, sys.argv[1])
import examples.console.changes
"""

BESIDE = ("examples", "fastapi_oidc")  # the folders beside the package that the console needs
MADE = re.compile(r"/_generated/|/_sync/")
# These two modules of the console say what is wrong with names that another module gives.
FRAME = re.compile(
    r'File "((?:generated_vmm|examples/console)/(?!(?:forms|versions)\.py)[^"]+)", line (\d+)'
)
ERROR = re.compile(r"^(\S+:\d+): error: (.*)$", re.MULTILINE)
ADAPT = "the description says otherwise now: edit this line, then generate again"


def try_out(made: Path, parts: Sequence[str], written: Path, cache: Path) -> None:
    """Put the generated folders into a copy of the `written` package and test it.

    The console is tested with it, if it is in the folder beside the package.

    Raises `Unusable`, with the line to edit, if a module cannot be imported, an import gives a
    warning, or mypy finds an error. `cache` is mypy's cache of other packages.
    """
    with tempfile.TemporaryDirectory(prefix="codegen-") as scratch:
        put_together(made, parts, written, Path(scratch, written.name))
        has_console = _link_console(written.parent, Path(scratch))
        _try_import(IMPORT_ALL, scratch, "-W", "error")
        checked = (written.name, *(["examples.console"] if has_console else []))
        options = ("--config-file", str(CONFIG), "--cache-dir", str(cache))
        packages = (f"--package={name}" for name in checked)
        with _alone(cache):
            said = _use("-m", "mypy", *options, *packages, folder=scratch)
        if said:
            _refuse("does not pass mypy", said, sorted(ERROR.findall(said), key=_is_vague), scratch)
        if has_console:
            _try_import(IMPORT_CONSOLE, scratch)


@contextmanager
def _alone(cache: Path) -> Iterator[None]:
    """Wait for other runs: mypy does not expect another one to change its cache."""
    cache.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(cache, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _link_console(root: Path, scratch: Path) -> bool:
    """Put the console beside the package, if there is one."""
    is_there = Path(root, "examples", "console").is_dir()
    for name in BESIDE if is_there else ():
        Path(scratch, name).symlink_to(root / name)
    return is_there


def _try_import(code: str, scratch: str, *options: str) -> None:
    if said := _use("-I", *options, "-c", code, scratch, folder=scratch):
        reason = said.strip().splitlines()[-1]
        last = FRAME.findall(said.replace(f"{scratch}/", ""))[-1:]
        _refuse("cannot be imported", said, [(":".join(at), reason) for at in last], scratch)


def put_together(made: Path, parts: Sequence[str], written: Path, target: Path) -> None:
    """Copy the written package to `target`, with the generated folders in their places."""
    shutil.copytree(written, target, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    for part in parts:
        shutil.rmtree(target / part, ignore_errors=True)
        shutil.copytree(made / part, target / part)


def _use(*arguments: str, folder: str) -> str:
    """Python's output if it failed with these arguments, else empty."""
    done = subprocess.run(  # noqa: S603  # the program and its arguments are ours
        [sys.executable, *arguments],
        cwd=folder,
        env={"MYPYPATH": folder},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr if done.returncode else ""


def _is_vague(fault: tuple[str, str]) -> bool:
    """Whether a fault only follows from another one, which names the cause."""
    return " Any " in fault[1]


def _refuse(what: str, said: str, faults: list[tuple[str, str]], folder: str) -> NoReturn:
    """Raise `Unusable` with the first of the faults, each a place and a reason, in one line.

    A fault of generated code is visible in written code too, or codegen has to learn its construct.
    """
    written = [fault for fault in faults if not MADE.search(fault[0])]
    if not faults:
        raise Unusable(f"the generated package {what}: {' '.join(said.split())[-500:]}")
    (place, reason), *others = written or faults
    more = f" (and {len(others)} more: {', '.join(place for place, _ in others)})" * bool(others)
    remedy = ADAPT if written else TEACH
    raise Unusable(f"{reason.replace(folder + '/', '')}{more}", place, remedy)
