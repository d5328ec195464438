"""The archives that a release would upload, built once a test run."""

import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterable
from email.message import Message
from email.parser import Parser
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REPOSITORY = Path(__file__).parents[2]
CLIENT = REPOSITORY / "generated_vmm"


def build(target: str, folder: Path, source: Path = REPOSITORY) -> Path:
    """The path of the `wheel` or `sdist` of `source`, made in `folder`."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    (path,) = (path for path in folder.iterdir() if path.suffix in {".whl", ".gz"})
    return path


def unpacked(archive: Path, folder: Path) -> Path:
    """The one folder in a source archive, unpacked in `folder`."""
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
    (top,) = folder.iterdir()
    return top


def metadata_of(wheel: zipfile.ZipFile) -> Message:
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    return Parser().parsestr(wheel.read(name).decode())


def brought(requirements: Iterable[Requirement], extras: Iterable[str] = ()) -> set[str]:
    """The names of all packages that these requirements bring here."""
    found: set[str] = set()
    waiting = [(requirement, frozenset({"", *extras})) for requirement in requirements]
    while waiting:
        requirement, extras = waiting.pop()
        name = canonicalize_name(requirement.name)
        marker = requirement.marker
        if marker and not any(marker.evaluate({"extra": extra}) for extra in extras):
            continue
        key = f"{name}{sorted(requirement.extras)}"
        if key not in found:
            found.add(key)
            own = frozenset({"", *requirement.extras})
            waiting += [(Requirement(line), own) for line in dependencies(name)]
    return {key.partition("[")[0] for key in found}


def dependencies(name: str) -> list[str]:
    try:
        return requires(name) or []
    except PackageNotFoundError:
        return []
