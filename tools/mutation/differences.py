"""What a mutant changed, read from the file in which mutmut keeps all mutants of a module."""

from __future__ import annotations

import ast
import difflib
import re
from dataclasses import dataclass
from typing import Final

type_of_function = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, slots=True)
class Difference:
    """One change of one function; its lines as Python writes them, without indentation.

    Without lines it changes nothing.
    """

    module: str
    function: str
    removed: tuple[str, ...]
    added: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"- {line}" for line in self.removed] + [f"+ {line}" for line in self.added]
        return "\n    ".join([f"{self.module}: {self.function}", *lines])


def differences(module: str, mutated: str) -> dict[str, Difference]:
    """The change of each mutant by the mutant's own function name; `mutated` is that file."""
    functions = {
        node.name: node
        for node in ast.walk(ast.parse(mutated))
        if isinstance(node, type_of_function)
    }
    found = {}
    for name, mutant in functions.items():
        mangled, _, number = name.rpartition("__mutmut_")
        if mangled and number.isdigit():
            original = functions[f"{mangled}__mutmut_orig"]
            found[name] = _between(module, _function(mangled), original, mutant)
    return found


def _function(mangled: str) -> str:
    """`x_parse` is the function `parse`, `xǁTokenǁparse` the method `Token.parse`."""
    return mangled.removeprefix("x_").removeprefix("xǁ").replace("ǁ", ".")


def _between(module: str, function: str, original: ast.AST, mutant: ast.AST) -> Difference:
    changes = list(difflib.ndiff(_lines(original), _lines(mutant)))
    return Difference(
        module=module,
        function=function,
        removed=tuple(line[2:] for line in changes if line.startswith("- ")),
        added=tuple(line[2:] for line in changes if line.startswith("+ ")),
    )


_CODEC: Final = re.compile(r"(?<=code\(')[\w-]+")
"""The name of a text encoding, which Python reads in either case."""


def _lines(function: ast.AST) -> list[str]:
    """Its signature after the name, then its body."""
    text = _CODEC.sub(lambda name: name[0].lower(), ast.unparse(function))
    lines = [line.strip() for line in text.splitlines()]
    head = next(place for place, line in enumerate(lines) if "def " in line)
    return [lines[head].partition("(")[2], *lines[head + 1 :]]
