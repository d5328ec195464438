"""One run: from a description to the generated files, which are compared or installed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from codegen.describe import describe, write_table
from codegen.document import Document, Unusable, located, operations_of, schemas_of, write_yaml
from codegen.generate import format_package, generate_package
from codegen.guest import PACKAGE as GUEST
from codegen.guest import make_guest
from codegen.import_spec import import_spec
from codegen.overlay import Action, read_overlay
from codegen.report import lines_to_write, members_page, report, without_member
from codegen.requirements import require_unclaimed
from codegen.schemas import plain
from codegen.tree import differences, fresh_beside, recover, replace, write_whole
from codegen.unasync import PACKAGES, SYNC, derive
from codegen.unsupported import add_unsupported, defined, used_by

PACKAGE = "_generated"
PARTS = (PACKAGE, GUEST, *(f"{name}/{SYNC}" for name in PACKAGES))  # folders of generated_vmm
MEMBERS = "members.md"


@dataclass(frozen=True, slots=True)
class Project:
    """The places of the files that codegen reads and writes."""

    root: Path

    @property
    def written(self) -> Path:
        """The package, whose hand-written half uses the generated one."""
        return self.root / "generated_vmm"

    @property
    def package(self) -> Path:
        """The generated package."""
        return self.written / PACKAGE

    @property
    def members(self) -> Path:
        """The generated page of client members."""
        return self.root / "docs" / "vmm" / MEMBERS

    @property
    def guest(self) -> Path:
        """The description of the guest agent."""
        return self.root / "openapi" / "guest.yaml"

    @property
    def overlay(self) -> Path:
        """Our own texts for the description."""
        return self.root / "openapi" / "overlay.yaml"

    @property
    def mypy_cache(self) -> Path:
        """mypy's cache for generated packages."""
        return self.root / ".mypy_cache" / "codegen"

    def description(self) -> Path:
        """The committed description. Raises `Unusable` unless there is exactly one."""
        found = self.descriptions()
        if len(found) != 1:
            names = ", ".join(path.name for path in found) or "none"
            raise Unusable(
                f"{self.root / 'openapi'}: expected one firecracker-*.yaml, found {names}"
            )
        return found[0]

    def descriptions(self) -> list[Path]:
        """All committed descriptions: more than one after an import that was interrupted."""
        return sorted((self.root / "openapi").glob("firecracker-*.yaml"))


@dataclass(frozen=True, slots=True)
class Run:
    """The result of a run, in a folder of its own, with notes for the user."""

    folder: Path
    facts: Document
    document: Document
    notes: list[str]

    @property
    def version(self) -> str:
        """The monitor's version."""
        version: str = self.document["info"]["version"]
        return version

    @property
    def name(self) -> str:
        """The file name of the description."""
        return f"firecracker-{self.version}.yaml"

    def summary(self) -> str:
        """The size of the result, in one line."""
        operations, schemas = list(operations_of(self.document)), schemas_of(self.document)
        return f"monitor {self.version}: {len(operations)} operations, {len(schemas)} schemas"


def described(project: Project, spec: Path) -> Document:
    """The repaired description with our texts, in a file."""
    document, _ = describe(import_spec(spec), read_overlay(project.overlay))
    return document


def make(project: Project, spec: Path, folder: Path) -> Run:
    """Generate all files for a description into a folder."""
    facts = import_spec(spec)
    with located(spec):
        return _made(project, spec, folder, facts)


def _made(project: Project, spec: Path, folder: Path, facts: Document) -> Run:
    actions = read_overlay(project.overlay)
    document, notes = describe(facts, actions)
    run = Run(folder, facts, document, notes)
    make_guest(project.guest, folder / GUEST)
    _make_package(project, run, actions)
    used = used_by(project.written, "operations")
    run.notes.extend(_news(project, spec, run, used))
    write_whole(folder / MEMBERS, members_page(document, used))
    write_whole(folder / run.name, write_yaml(facts))
    return run


def _make_package(project: Project, run: Run, actions: list[Action]) -> None:
    target = run.folder / PACKAGE
    generate_package(run.document, target)
    require_unclaimed(defined(target / "models" / "__init__.py"), project.written)
    run.notes.extend(add_unsupported(target, run.version, project.written, actions))
    write_table(run.document, target)
    format_package(target, run.folder / GUEST, *derive(project.written, run.folder))


def _news(project: Project, spec: Path, run: Run, used: set[str]) -> Iterator[str]:
    """Notes on this description for users of the client."""
    operations = {plain(name): name for name in defined(run.folder / PACKAGE / "operations.py")}
    for path, method, operation in without_member(run.document, used):
        function = operations[plain(operation["operationId"])]
        yield lines_to_write(path, method, operation, function)
    models = Path("models", "__init__.py")
    gone = defined(project.package / models) - defined(run.folder / PACKAGE / models)
    yield from report(_committed(project, spec), run.document, gone)


def _committed(project: Project, spec: Path) -> Document | None:
    """The previous description; None if it is the one to import, or cannot be read."""
    try:
        path = project.description()
        return None if path == spec else described(project, path)
    except Unusable:
        return None


def install(run: Run, project: Project) -> None:
    """Install the result into the project, each part as a whole.

    The description comes last, so that an import that is interrupted before has no effect.
    """
    for part in PARTS:
        target = project.written / part
        recover(target)
        shutil.copytree(run.folder / part, fresh_beside(target))
        replace(target)
    write_whole(project.members, (run.folder / MEMBERS).read_text(encoding="utf-8"))
    write_whole(
        project.root / "openapi" / run.name, (run.folder / run.name).read_text(encoding="utf-8")
    )
    for path in project.descriptions():
        if path.name != run.name:
            path.unlink()


def stale(run: Run, project: Project) -> list[str]:
    """The differences between the project and the result, one line for each file."""
    found = [
        line for part in PARTS for line in differences(run.folder / part, project.written / part)
    ]
    for made, present in (
        (MEMBERS, project.members),
        (run.name, project.root / "openapi" / run.name),
    ):
        if not present.exists():
            found.append(f"missing: {present}")
        elif (run.folder / made).read_bytes() != present.read_bytes():
            found.append(f"differs: {present}")
    return found
