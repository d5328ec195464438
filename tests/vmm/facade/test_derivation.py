"""The derivation of the async facade: its rules, and that it stops at what it does not know."""

from __future__ import annotations

from pathlib import Path

import pytest

from codegen import async_facade
from codegen.async_facade import FACADE, NOT_DERIVED, derive
from codegen.document import Unusable

SOURCES = {
    path.name: path.read_text() for path in FACADE.glob("*.py") if path.name not in NOT_DERIVED
}
HEAD = '"""Module."""\n\nfrom generated_vmm.facade.sender import Resource, Sender\n\n\n'


def derived(source: str) -> str:
    """The async form of one more module of the facade."""
    return derive({**SOURCES, "more.py": HEAD + source})["more.py"]


def test_what_waits_is_awaited_and_async() -> None:
    made = derived(
        """
class Thing(Resource):
    def outer(self) -> str:
        return self.inner().name

    def inner(self) -> object:
        return self._send(operation())

    def immediate(self) -> str:
        return "now"
"""
    )
    assert "class AsyncThing(AsyncResource):" in made
    assert "async def outer(self) -> str:\n        return (await self.inner()).name" in made
    assert "async def inner(self) -> object:\n        return await self._send(operation())" in made
    assert "    def immediate(self) -> str:" in made


def test_imports_point_to_the_async_modules() -> None:
    made = derived("")
    assert (
        "from generated_vmm._generated.async_facade.sender import AsyncResource, AsyncSender"
    ) in made


def test_a_module_says_what_it_was_derived_from() -> None:
    assert derived("").startswith(
        '"""Module.\n\nDerived from `generated_vmm/facade/more.py` by `make codegen`. Do not edit.'
    )


UNKNOWN = {
    "lambda": "x = lambda: 1",
    "with": "with open('x'):\n    pass",
    "comprehension": "x = [a for a in b]",
    "decorator": "class A(Resource):\n    @property\n    def p(self):\n        self._send(1)",
    "import": "import threading",
    "yield": "def f():\n    yield 1",
    "global": "def f():\n    global x",
    "one name that waits in one class only": (
        "class A(Resource):\n    def get(self):\n        self._send(1)\n\n\n"
        "class B(Resource):\n    def get(self):\n        return 1"
    ),
}


HIDDEN = {
    "a method kept for later": "        f = self.pause\n        f()",
    "a method given away": "        self.each(self.pause)",
    "a method in a list": "        for f in [self.pause]:\n            f()",
    "a function of another name": "        f = body_of\n        f(1)",
    "a call of a parameter": "        call()",
    "a call of what a call gives": "        self.chosen()()",
    "a call of an element": "        self.calls[0]()",
    "a name in a text": "        getattr(self, 'pause')()",
    "a rule without a call": "        send = self._sender.send",
}


@pytest.mark.parametrize("line", HIDDEN.values(), ids=HIDDEN)
def test_what_may_wait_without_saying_so_stops_it(line: str) -> None:
    source = f"class A(Resource):\n    def run(self, call):\n{line}"
    with pytest.raises(Unusable, match=r"generated_vmm/facade/more\.py:\d+: no rule for"):
        derived(source)


def test_a_method_that_waits_is_awaited_whatever_it_is_called_on() -> None:
    made = derived(
        """
class Thing(Resource):
    def run(self, vm: VmmClient) -> None:
        vm.with_options(timeout=1).pause()
        vm.drive("a").delete()
        self.other.mmds.config.set({})
"""
    )
    assert "await vm.with_options(timeout=1).pause()" in made
    assert "await vm.drive('a').delete()" in made
    assert "await self.other.mmds.config.set({})" in made


def test_a_function_of_a_generated_module_does_not_wait_like_a_method_of_its_name() -> None:
    made = derived(
        """
from generated_vmm._generated import operations


class Thing(Resource):
    def make(self) -> object:
        return operations.create_sync_action(1)
"""
    )
    assert "def make(self) -> object:\n        return operations.create_sync_action(1)" in made
    assert "async def make" not in made


def test_a_name_that_waits_in_one_module_and_not_in_another_stops_it() -> None:
    source = "class A(Resource):\n    def pause(self):\n        return 1"
    with pytest.raises(Unusable, match="a pause that does not wait, beside one that does"):
        derived(source)


@pytest.mark.parametrize("source", UNKNOWN.values(), ids=UNKNOWN)
def test_source_without_a_rule_stops_it_with_the_place(source: str) -> None:
    with pytest.raises(Unusable, match=r"generated_vmm/facade/more\.py:\d+: no rule for"):
        derived(source)


@pytest.mark.parametrize("table", ["WAITS", "RENAMED", "METHODS", "WORDS"])
def test_a_rule_that_nothing_needs_stops_it(monkeypatch: pytest.MonkeyPatch, table: str) -> None:
    rules = getattr(async_facade, table)
    more = (*rules, "unneeded") if isinstance(rules, tuple) else {**rules, "unneeded": "x"}
    monkeypatch.setattr(async_facade, table, more)
    with pytest.raises(Unusable, match="rules without a use: unneeded"):
        derive(SOURCES)


def test_the_same_source_gives_the_same_text() -> None:
    assert derive(SOURCES) == derive(dict(reversed(SOURCES.items())))


def test_every_module_of_the_facade_has_an_async_form() -> None:
    folder = Path(async_facade.__file__).parents[1] / "generated_vmm/_generated/async_facade"
    assert {path.name for path in folder.glob("*.py")} == SOURCES.keys()
