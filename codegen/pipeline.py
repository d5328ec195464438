"""One run: from a description to the generated files, which are compared or installed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from codegen.describe import describe, repaired, write_table
from codegen.document import Document, Unusable, located, operations_of, schemas_of, write_yaml
from codegen.generate import format_package, generate_package
from codegen.guest import PACKAGE as GUEST
from codegen.guest import make_guest
from codegen.import_spec import import_spec
from codegen.members import members_of, require_free, suggested
from codegen.overlay import Action, read_overlay
from codegen.releases import Releases, learn, places_of, read_releases, write_releases
from codegen.report import lines_to_write, members_page, report, without_member
from codegen.requirements import require_unclaimed
from codegen.resources import write_resources
from codegen.schemas import plain
from codegen.tree import differences, fresh_beside, recover, replace, write_whole
from codegen.unasync import PACKAGES, SYNC, derive
from codegen.unsupported import Lacking, add_unsupported, defined, models_used

API = "firecracker"
"""The beginning of a description's file name in `openapi`: `NAME-VERSION.yaml`."""
CLIENT = "facade/_async/client.py"
"""The module in `generated_vmm` with the client that inherits the generated members."""


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
        return self.written / "_generated"

    @property
    def parts(self) -> tuple[str, ...]:
        """The folders of `generated_vmm` that a run replaces."""
        return (self.package.name, GUEST, *(f"{name}/{SYNC}" for name in PACKAGES))

    @property
    def members(self) -> Path:
        """The generated page of client members."""
        return self.root / "docs" / "vmm" / "members.md"

    @property
    def overlay(self) -> Path:
        """Our own texts for the description."""
        return self.root / "openapi" / "overlay.yaml"

    @property
    def releases(self) -> Path:
        """Which releases have what."""
        return self.root / "openapi" / "releases.yaml"

    @property
    def mypy_cache(self) -> Path:
        """mypy's cache for generated packages."""
        return self.root / ".mypy_cache" / "codegen"

    def description(self) -> Path:
        """The committed description. Raises `Unusable` unless there is exactly one."""
        found = self.descriptions()
        if len(found) != 1:
            names = ", ".join(path.name for path in found) or "none"
            raise Unusable(f"{self.root / 'openapi'}: expected one {API}-*.yaml, found {names}")
        return found[0]

    def descriptions(self) -> list[Path]:
        """All committed descriptions: more than one after an import that was interrupted."""
        return sorted((self.root / "openapi").glob(f"{API}-[0-9]*.yaml"))


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
        return f"{API}-{self.version}.yaml"

    def summary(self) -> str:
        """The size of the result, in one line."""
        operations, schemas = list(operations_of(self.document)), schemas_of(self.document)
        return f"{API} {self.version}: {len(operations)} operations, {len(schemas)} schemas"


def described(project: Project, spec: Path) -> Document:
    """The repaired description with our texts, in a file."""
    document, _ = describe(import_spec(spec), *_texts(project))
    return document


def _texts(project: Project) -> tuple[list[Action], Releases]:
    return read_overlay(project.overlay), read_releases(project.releases)


def make(project: Project, spec: Path, folder: Path) -> Run:
    """Generate all files for a description into a folder."""
    facts = import_spec(spec)
    with located(spec):
        return _made(project, spec, folder, facts)


def _made(project: Project, spec: Path, folder: Path, facts: Document) -> Run:
    document, notes = describe(facts, *_texts(project))
    run = Run(folder, facts, document, notes)
    _make_package(project, run)
    run.notes.extend(_news(project, spec, run))
    head = Path(__file__).with_name(f"{project.members.stem}_head.md")
    write_whole(folder / project.members.name, members_page(document, head))
    write_whole(folder / run.name, write_yaml(facts))
    write_whole(folder / project.releases.name, write_releases(_learned(project, facts)))
    return run


def _make_package(project: Project, run: Run) -> None:
    target = run.folder / project.package.name
    generate_package(run.document, target)
    require_unclaimed(defined(target / "models" / "__init__.py"), project.written)
    lacking = _lacking(project, run.document)
    used = models_used(project.written, project.package.name)
    run.notes.extend(add_unsupported(target, run.version, used, lacking))
    members = members_of(run.document, lacking)
    require_free(members, project.written / CLIENT)
    write_resources(members, run.document, target, "MonitorApi", lacking.fields)
    write_table(run.document, target)
    make_guest(project.root / "openapi" / "guest.yaml", run.folder / GUEST)
    format_package(target, *derive(project.written, run.folder), run.folder / GUEST)


def _lacking(project: Project, document: Document) -> Lacking:
    actions, releases = _texts(project)
    return Lacking.by(document, releases.lacked_by(document), actions)


def _learned(project: Project, facts: Document) -> Releases:
    """The table of releases with this one."""
    try:
        before, _ = repaired(import_spec(project.description()))
    except Unusable:  # it is to be replaced
        before, _ = repaired(facts)
    document, _ = repaired(facts)
    return learn(read_releases(project.releases), document, places_of(before))


def _news(project: Project, spec: Path, run: Run) -> Iterator[str]:
    """Notes on this description for users of the client."""
    package = run.folder / project.package.name
    operations = {plain(name): name for name in defined(package / "operations.py")}
    client = project.written / CLIENT
    members = suggested(run.document, _lacking(project, run.document), client)
    for path, method, operation in without_member(run.document):
        place, function = f"{method.upper()} {path}", operations[plain(operation["operationId"])]
        yield lines_to_write(place, operation, function, members[place], project.overlay.name)
    models = Path("models", "__init__.py")
    gone = defined(project.package / models) - defined(package / models)
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
    for part in project.parts:
        target = project.written / part
        recover(target)
        shutil.copytree(run.folder / part, fresh_beside(target))
        replace(target)
    for made, target in _files(run, project):
        write_whole(target, made.read_text(encoding="utf-8"))
    for path in project.descriptions():
        if path.name != run.name:
            path.unlink()


def stale(run: Run, project: Project) -> list[str]:
    """The differences between the project and the result, one line for each file."""
    found = [
        line
        for part in project.parts
        for line in differences(run.folder / part, project.written / part)
    ]
    for made, present in _files(run, project):
        if not present.exists():
            found.append(f"missing: {present}")
        elif made.read_bytes() != present.read_bytes():
            found.append(f"differs: {present}")
    return found


def _files(run: Run, project: Project) -> Iterator[tuple[Path, Path]]:
    """The files beside the package: the one made, and its place. The description is the last."""
    for present in (project.members, project.releases, project.root / "openapi" / run.name):
        yield run.folder / present.name, present
