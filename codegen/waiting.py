"""Which calls of the facade wait: found out by name, and refused where a name cannot tell."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

Called: TypeAlias = ast.Attribute | ast.Name
# With these a function is called that the source does not name.
HIDING = {"eval", "exec", "getattr", "globals", "locals", "vars"}
# What is called though it has no name of its own: the class of a client, to make another one.
OWN_CLASS = "type(self)"


@dataclass(frozen=True, slots=True)
class Waiting:
    """The names under which something waits, in all modules of the facade together.

    `rules` are names, or ends of longer expressions (`.send`), of what waits and is not defined
    there. A method of one of the `methods` waits whatever it is called on, but for a module.
    """

    rules: tuple[str, ...]
    functions: frozenset[str]
    methods: frozenset[str]

    @classmethod
    def found_in(
        cls, trees: Sequence[ast.Module], rules: tuple[str, ...], methods: Iterable[str]
    ) -> Waiting:
        """All that waits by the rules, or because it calls what waits."""
        found = cls(rules, frozenset(), frozenset(methods))
        while (larger := found._with_callers(trees)) != found:
            found = larger
        return found

    @property
    def names(self) -> frozenset[str]:
        """The functions and methods that wait."""
        return self.functions | self.methods

    def rule_for(self, called: ast.expr, modules: set[str]) -> str | None:
        """Why a call of this waits, None when it does not."""
        whole = ast.unparse(called)
        for rule in self.rules:
            if whole == rule or (rule.startswith(".") and whole.endswith(rule)):
                return rule
        if isinstance(called, ast.Name):
            return called.id if called.id in self.functions else None
        if isinstance(called, ast.Attribute) and ast.unparse(called.value) not in modules:
            return called.attr if called.attr in self.methods else None
        return None

    def waits(self, function: ast.FunctionDef, modules: set[str]) -> bool:
        """Whether the function makes a call that waits."""
        calls = (node for node in ast.walk(function) if isinstance(node, ast.Call))
        return any(self.rule_for(call.func, modules) for call in calls)

    def unsure(self, tree: ast.Module) -> Iterator[tuple[ast.expr, str]]:
        """Where something may wait without a call that says so, each with its description."""
        modules, called = module_names(tree), set(_called(tree))
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and node.id in HIDING:
                yield node, node.id
            elif isinstance(node, Called) and node not in called and self.rule_for(node, modules):
                yield node, f"{ast.unparse(node)} without a call"
        yield from _unnamed_calls(tree)

    def _with_callers(self, trees: Sequence[ast.Module]) -> Waiting:
        functions, methods = set(self.functions), set(self.methods)
        for tree in trees:
            modules = module_names(tree)
            for parent in ast.walk(tree):
                found = methods if isinstance(parent, ast.ClassDef) else functions
                for node in ast.iter_child_nodes(parent):
                    if isinstance(node, ast.FunctionDef) and self.waits(node, modules):
                        found.add(node.name)
        return Waiting(self.rules, frozenset(functions), frozenset(methods))


def module_names(tree: ast.Module) -> set[str]:
    """The names of the modules that a module has imported."""
    return {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        or (isinstance(node, ast.ImportFrom) and node.module == "generated_vmm._generated")
        for alias in node.names
    }


def _called(tree: ast.Module) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield node.func


def _unnamed_calls(tree: ast.Module) -> Iterator[tuple[ast.expr, str]]:
    """Calls of values: of a parameter, a variable, or what an expression gives."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            values = set(_values_in(function))
            for call in _called(ast.Module([function], [])):
                if isinstance(call, ast.Name) and call.id in values:
                    yield call, f"a call of the value {call.id}"
                elif not isinstance(call, Called) and ast.unparse(call) != OWN_CLASS:
                    yield call, f"a call of {ast.unparse(call)}"


def _values_in(function: ast.FunctionDef) -> Iterator[str]:
    """The parameters and variables of a function."""
    for node in ast.walk(function):
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
