"""An older monitor lacks what the written half of the package uses: it gets names that say so.

Without them the import of `generated_vmm` would fail, though most of the client works.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

FIELDS = "Fields"

MODELS = """
from typing_extensions import TypedDict

from generated_vmm.model import Absent
"""

OPERATIONS = """
from typing import NoReturn

from generated_vmm.errors import VmmError
"""

MODEL = '''

class {name}(Absent):
    """Not in monitor {version}."""
'''

KEYWORDS = '''

class {name}(TypedDict):
    """Not in monitor {version}."""
'''

OPERATION = '''

def {name}(*_: object) -> NoReturn:
    """Not in monitor {version}."""
    raise VmmError("monitor {version} has no operation {name}")
'''


def add_absent(package: Path, version: str, written: Path) -> list[str]:
    """Add a name for everything that the `written` code uses of `package` and that is missing.

    The notes name what was added; a monitor as new as the written code gets nothing.
    """
    models, operations = package / "models" / "__init__.py", package / "operations.py"
    no_models = sorted(_used(written, "models") - defined(models))
    no_operations = sorted(_used(written, "operations") - defined(operations))
    if no_models:
        _append(models, MODELS, [(_model(name), name) for name in no_models], version)
    if no_operations:
        _append(operations, OPERATIONS, [(OPERATION, name) for name in no_operations], version)
    return [f"client: {name} is not in {version}" for name in (*no_operations, *no_models)]


def _model(name: str) -> str:
    return KEYWORDS if name.endswith(FIELDS) else MODEL


def _append(module: Path, imports: str, added: list[tuple[str, str]], version: str) -> None:
    text = "".join(template.format(name=name, version=version) for template, name in added)
    module.write_text(module.read_text(encoding="utf-8") + imports + text, encoding="utf-8")


def _used(written: Path, module: str) -> set[str]:
    """What the modules of a package, but the generated ones, use of a generated module."""
    paths = [p for p in written.rglob("*.py") if "_generated" not in p.relative_to(written).parts]
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in paths]
    return {
        node.attr
        for tree in trees
        if module in _generated_modules(tree)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == module
    }


def _generated_modules(tree: ast.Module) -> Iterator[str]:
    """The modules that a module imports from the generated package."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "generated_vmm._generated":
            yield from (alias.name for alias in node.names)


def defined(module: Path) -> set[str]:
    """The names that a generated module has."""
    return set(_names(ast.parse(module.read_text(encoding="utf-8"))))


def _names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.ImportFrom):
            yield from (alias.name for alias in node.names)
