"""Generate the monitor client from the monitor's own description of its HTTP API."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from codegen.document import Unusable
from codegen.generate import try_out
from codegen.pipeline import Project, Run, described, install, make, stale
from codegen.report import changes

EXAMPLES = """\
examples:
  python -m codegen                         regenerate from the committed description
  python -m codegen --spec firecracker.yaml
                                            import a monitor release, then regenerate
  python -m codegen --spec firecracker.yaml --out FOLDER
                                            generate into a new folder, change nothing here
  python -m codegen --check                 is what is committed what would be generated?
  python -m codegen diff OLD NEW            what changes for a user between two descriptions

exit status: 0 done, 1 --check found differences, 2 unusable input or output
"""


def main(arguments: Sequence[str] | None = None, *, root: Path = Path(__file__).parents[1]) -> int:
    """Run the command line in the project at `root` and return the exit status."""
    options = _parser().parse_args(arguments)
    project = Project(root)
    try:
        if options.command == "diff":
            return _diff(project, options.old, options.new)
        if options.out:
            return _generate_into(project, options.spec or project.description(), options.out)
        return _generate(project, options.spec, is_check=options.check)
    except (Unusable, OSError) as error:
        print(f"codegen: {error}", file=sys.stderr)
        return 2


def _generate(project: Project, spec: Path | None, *, is_check: bool) -> int:
    with tempfile.TemporaryDirectory(prefix="codegen-") as scratch:
        run = make(project, spec or project.description(), Path(scratch))
        return _report_stale(run, project) if is_check else _install(run, project)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m codegen",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--spec",
        type=Path,
        metavar="FILE",
        help="a description as a monitor release publishes it: Swagger 2.0, OpenAPI 3.0 or 3.1",
    )
    goal = parser.add_mutually_exclusive_group()
    goal.add_argument("--out", type=Path, metavar="DIR", help="generate into a new folder instead")
    goal.add_argument("--check", action="store_true", help="compare instead of writing")
    commands = parser.add_subparsers(dest="command", metavar="diff")
    diff = commands.add_parser("diff", help="what changes for a user between two descriptions")
    diff.add_argument("old", type=Path, metavar="OLD", help="a published or committed description")
    diff.add_argument("new", type=Path, metavar="NEW", help="another one")
    return parser


def _diff(project: Project, old: Path, new: Path) -> int:
    before, after = described(project, old), described(project, new)
    print(f"{before['info']['version']} -> {after['info']['version']}")
    for line in list(changes(before, after)) or ["nothing changes for a user"]:
        print(line)
    return 0


def _generate_into(project: Project, spec: Path, folder: Path) -> int:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Unusable(f"{folder}: not an empty folder")
    with tempfile.TemporaryDirectory(prefix="codegen-") as scratch:
        run = make(project, spec, Path(scratch))
        try_out(run.folder, project.parts, project.written, project.mypy_cache)
        shutil.copytree(run.folder, folder, dirs_exist_ok=True)
    _print(run)
    for path in sorted(folder.iterdir()):
        print(f"made {path}")
    return 0


def _install(run: Run, project: Project) -> int:
    try_out(run.folder, project.parts, project.written, project.mypy_cache)
    install(run, project)
    _print(run)
    return 0


def _report_stale(run: Run, project: Project) -> int:
    found = stale(run, project)
    for line in found:
        print(line)
    if found:
        print("run `make codegen` and commit what it changes")
    return 1 if found else 0


def _print(run: Run) -> None:
    for note in run.notes:
        print(note)
    print(run.summary())


if __name__ == "__main__":
    sys.exit(main())
