"""What the generated half of the package has, and what the written half uses of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path


def defined(module: Path) -> set[str]:
    """The public names that a generated module has; none when there is no such module."""
    if not module.exists():
        return set()
    tree = ast.parse(module.read_text(encoding="utf-8"))
    return {name for name in _names(tree) if not name.startswith("_")}


def used_by(written: Path, module: str) -> set[str]:
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


def _names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.ImportFrom):
            yield from (alias.name for alias in node.names)
