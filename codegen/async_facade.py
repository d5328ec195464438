"""The async client, derived from the sync one in `generated_vmm/facade`.

The tables below and `codegen/waiting.py` are all the rules there are: calls that wait are awaited,
functions that wait are `async`, classes get the prefix `Async`, and some names are replaced. Source
that the rules do not cover is `Unusable`, and so is a rule that nothing needs any more.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from codegen.document import Unusable
from codegen.waiting import Waiting, module_names

SYNC, ASYNC = "generated_vmm.facade", "generated_vmm._generated.async_facade"
FACADE = Path(__file__).parents[1] / "generated_vmm" / "facade"
NOT_DERIVED = {"config_file.py"}
NOTE = "Derived from `{}` by `make codegen`. Do not edit."

# What is awaited: a function by its name, a method by `.name`.
WAITS = ("connect_vsock", "time.sleep", ".close", ".exchange", ".send", "._send")
# What is called differently; `.name` is the end of a longer expression.
RENAMED = {
    "Channel": "AsyncChannel",
    "VsockConnection": "AsyncVsockConnection",
    "channel_to": "async_channel_to",
    "connect_vsock": "async_connect_vsock",
    "httpx.BaseTransport": "httpx.AsyncBaseTransport",
    "time.sleep": "asyncio.sleep",
}
METHODS = {"__enter__": "__aenter__", "__exit__": "__aexit__"}
WORDS = {"Threads may share": "Tasks of one event loop may share"}
IMPORTS = (
    "__future__",
    "collections.abc",
    "copy",
    "dataclasses",
    "httpx",
    "os",
    "pydantic",
    "time",
    "typing",
)
SYNTAX = {
    "Add", "AnnAssign", "Assign", "Attribute", "BinOp", "BitOr", "BoolOp", "Call", "ClassDef",
    "Compare", "Constant", "Dict", "Eq", "ExceptHandler", "Expr", "For", "FormattedValue",
    "FunctionDef", "If", "Import", "ImportFrom", "Is", "IsNot", "JoinedStr", "List", "Load", "LtE",
    "Module", "Name", "Not", "NotEq", "Or", "Return", "Raise", "Starred", "Store", "Sub",
    "Subscript", "Try", "Tuple", "UnaryOp", "While", "alias", "arg", "arguments", "keyword", "And",
    "IfExp",
}  # fmt: skip


def derive_folder(target: Path, facade: Path = FACADE) -> None:
    """Write the async form of the facade's modules into a new folder, not yet formatted.

    Raises `Unusable` for source that has no async form here, and for a rule without a use.
    """
    sources = {path.name: path.read_text("utf-8") for path in sorted(facade.glob("*.py"))}
    made = derive({name: text for name, text in sources.items() if name not in NOT_DERIVED})
    target.mkdir(parents=True)
    for name, text in made.items():
        (target / name).write_text(text, "utf-8")


def derive(sources: Mapping[str, str]) -> dict[str, str]:
    """The async form of modules, by file name."""
    used: set[str] = set()
    trees = {name: ast.parse(text, name) for name, text in sources.items()}
    waiting = Waiting.found_in(list(trees.values()), WAITS, METHODS)
    made = {name: _derive_module(name, tree, waiting, used) for name, tree in trees.items()}
    unused = {*WAITS, *RENAMED, *METHODS, *WORDS} - used
    if unused:
        raise Unusable(f"codegen/async_facade.py: rules without a use: {', '.join(sorted(unused))}")
    return made


def _derive_module(name: str, tree: ast.Module, waiting: Waiting, used: set[str]) -> str:
    for node, what in waiting.unsure(tree):
        raise Unusable(f"{SYNC.replace('.', '/')}/{name}:{node.lineno}: no rule for {what}")
    walk = _Derivation(name, tree, waiting, used)
    return ast.unparse(ast.fix_missing_locations(walk.visit(tree))) + "\n"


class _Derivation(ast.NodeTransformer):
    """The walk through one module."""

    def __init__(self, name: str, tree: ast.Module, waiting: Waiting, used: set[str]) -> None:
        self.name = name
        self.used = used
        self.line = 1
        self.classes = set(_class_names(tree))
        self.waiting = waiting
        self.modules = module_names(tree)

    def visit(self, node: ast.AST) -> Any:
        self.line = getattr(node, "lineno", self.line)
        if type(node).__name__ not in SYNTAX:
            raise self._unusable(node, type(node).__name__)
        return super().visit(node)

    def visit_Module(self, node: ast.Module) -> ast.Module:
        self.generic_visit(node)
        title = (ast.get_docstring(node) or "").partition("\n")[0]
        note = NOTE.format(f"{SYNC.replace('.', '/')}/{self.name}")
        node.body[0] = ast.Expr(ast.Constant(f"{title}\n\n{note}\n"))
        return node

    def visit_Import(self, node: ast.Import) -> ast.Import:
        for alias in node.names:
            self._require_known(node, alias.name)
        if any(alias.name == "time" for alias in node.names):
            node.names.append(ast.alias("asyncio"))
        return node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.ImportFrom:
        self._require_known(node, node.module or "")
        node.module = (node.module or "").replace(SYNC, ASYNC)
        for alias in node.names:
            alias.name = self._renamed(alias.name)
            alias.asname = alias.asname and self._renamed(alias.asname)
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        node.name = self._renamed(node.name)
        self.generic_visit(node)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        waits = node.name in self.waiting.names
        if waits and not _is_overload(node):
            self._require_plain(node)
        node.name = self._replaced(METHODS, node.name)
        self.generic_visit(node)
        return ast.AsyncFunctionDef(**vars(node)) if waits else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        rule = self.waiting.rule_for(node.func, self.modules)
        self.generic_visit(node)
        if rule is None:
            return node
        self.used.add(rule)
        return ast.Await(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        whole = ast.unparse(node)
        for old, new in RENAMED.items():
            if whole == old or (old.startswith(".") and whole.endswith(old)):
                self.used.add(old)
                return ast.parse(whole.removesuffix(old) + new, mode="eval").body
        self.generic_visit(node)
        return node

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self._renamed(node.id)
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        if isinstance(node.value, str):
            for old in WORDS:
                if old in node.value:
                    node.value = node.value.replace(old, self._replaced(WORDS, old))
        return node

    def _renamed(self, name: str) -> str:
        return f"Async{name}" if name in self.classes else self._replaced(RENAMED, name)

    def _replaced(self, rules: Mapping[str, str], name: str) -> str:
        if name in rules:
            self.used.add(name)
        return rules.get(name, name)

    def _require_plain(self, node: ast.FunctionDef) -> None:
        """One name waits everywhere or nowhere, and is not decorated."""
        if node.name not in METHODS and not self.waiting.waits(node, self.modules):
            raise self._unusable(node, f"a {node.name} that does not wait, beside one that does")
        if node.decorator_list:
            raise self._unusable(node, f"a decorator on {node.name}")

    def _require_known(self, node: ast.AST, module: str) -> None:
        if module not in IMPORTS and not module.startswith("generated_vmm."):
            raise self._unusable(node, f"import of {module}")

    def _unusable(self, node: ast.AST, what: str) -> Unusable:
        line = getattr(node, "lineno", self.line)
        return Unusable(f"{SYNC.replace('.', '/')}/{self.name}:{line}: no rule for {what}")


def _class_names(tree: ast.Module) -> Iterator[str]:
    """The classes of the facade that a module defines or imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(SYNC):
            yield from (alias.name for alias in node.names if alias.name[0].isupper())


def _is_overload(function: ast.FunctionDef) -> bool:
    return [ast.unparse(each) for each in function.decorator_list] == ["overload"]
