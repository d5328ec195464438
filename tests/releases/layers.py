"""Every member of the client, called on a channel that answers everything and on the simulator.

The console shows its pages of such a simulated machine.

Run in a process of its own, with the package to try as `generated_vmm`.
"""

from __future__ import annotations

import inspect
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import generated_vmm
from generated_vmm import VmmApiError, VmmClient, VmmError, to_config_file
from generated_vmm.testing import SimulatedMonitor

if TYPE_CHECKING:
    from tests.console.browser import Browser

GENERATED = Path(generated_vmm.__file__).with_name("_generated")
TABLE = json.loads(GENERATED.joinpath("api.json").read_bytes())
MODEL = re.compile(r"models\.(\w+)")
BEFORE, LATER = ("set",), ("get", "status", "update", "start", "stop", "create", "delete", "load")


def example(name: str, *, whole: bool = False) -> dict[str, Any]:
    """A value of a schema, with its required fields or all; no two of its paths are equal."""
    schema = TABLE["schemas"].get(name, {})  # a call that the release lacks may take it with it
    return {
        field: field if field.endswith("_path") else value_of(found, whole=whole)
        for field, found in schema.get("fields", {}).items()
        if whole or field in schema["required"]
    }


def value_of(found: dict[str, Any], *, whole: bool) -> Any:
    if "ref" in found:
        named = TABLE["schemas"][found["ref"]]
        return (
            value_of(named, whole=whole) if "enum" in named else example(found["ref"], whole=whole)
        )
    if "enum" in found:
        return found["enum"][0]
    if found["type"] == "array":
        return [value_of(found["items"], whole=whole)]
    values = {"string": "a", "integer": found.get("minimum", 1), "boolean": True, "number": 1.0}
    return values.get(found["type"], {})


def members(thing: Any, path: str = "vm") -> Iterator[tuple[str, Callable[..., Any], str]]:
    """The calls below a client: the name of each, the call, and the model that it sends."""
    for name in dir(thing):
        member = getattr(thing, name)
        if name.startswith("_"):
            continue
        if inspect.ismethod(member) and name in (*BEFORE, *LATER):
            hints = [
                str(found.annotation) for found in inspect.signature(member).parameters.values()
            ]
            model = next((found[1] for hint in hints if (found := MODEL.search(hint))), "")
            yield f"{path}.{name}", member, model
        elif type(member).__name__.endswith("Resource"):
            yield from members(member, f"{path}.{name}")


def calls(vm: VmmClient) -> list[tuple[str, Callable[[], object]]]:
    """All members, those first that configure, each with a body that it takes."""
    found = [*members(vm)]
    for device in ("drive", "network_interface", "pmem"):
        found += members(getattr(vm, device)("a"), device)
    made = [
        (name, (lambda call=call, model=model: call(example(model))) if model else call)
        for name, call, model in found
    ]
    return sorted(made, key=lambda one: one[0].rpartition(".")[2] not in BEFORE)


class Everything:
    """A channel on which every call succeeds, with an answer of the described kind."""

    def exchange(self, operation: Any, seconds: float | None) -> Any:
        for known in TABLE["operations"]:
            path = re.sub(r"\{\w+\}", r"[^/]+", known["path"])
            if known["method"] == operation.method and re.fullmatch(path, operation.path):
                value = example(known["answer"], whole=True) if known["answer"] else None
                content = b"" if value is None else json.dumps(value).encode()
                return SimpleNamespace(status_code=200, headers=[], content=content)
        raise AssertionError(f"no operation for {operation}")

    def close(self) -> None:
        pass


def try_facade(_: str) -> None:
    """Every member can be called, and what takes several calls works."""
    vm = VmmClient("/vm", transport=Everything())
    for _name, call in calls(vm):
        with lacking():
            call()
    vm.boot("/kernel", "/disk", example("MachineConfiguration"))
    vm.pause()
    vm.resume()
    to_config_file(vm.vm_config.get())
    assert vm._vsock_path() == "uds_path"


def try_simulator(folder: str) -> None:
    """Every call gets an answer, whatever it is, before the start and after it."""
    died: list[str] = []
    threading.excepthook = lambda found: died.append(f"{found.exc_type}: {found.exc_value}")
    path = f"{folder}/vm.socket"
    with SimulatedMonitor(path, check_files=False), VmmClient(path, timeout=5) as vm:
        for name, call in calls(vm):
            answered(f"{name} before the start", call, died)
        answered("boot", lambda: vm.boot("/kernel", "/disk"), died)
        for name, call in calls(vm):
            answered(f"{name} after the start", call, died)


def try_console(folder: str) -> None:
    """Every page of a machine is shown, whatever it has."""
    from tests.console.running import running_console, signed_in

    path = f"{folder}/vm.socket"
    with (
        SimulatedMonitor(path, check_files=False, enable_pci=True),
        VmmClient(path, timeout=5) as vm,
        running_console({"demo": path}) as console,
        signed_in(console) as browser,
    ):
        shown(browser, "empty")
        for name, call in calls(vm):
            if name.endswith(".set"):
                with suppress(VmmApiError), lacking():
                    call()
        shown(browser, "set up")
        vm.boot("/kernel", "/disk")
        shown(browser, "running")


@contextmanager
def lacking() -> Iterator[None]:
    """A call that the release lacks raises an error that says so, before anything is sent."""
    try:
        yield
    except VmmError as error:
        if "this client is made for" not in str(error):
            raise


def shown(browser: Browser, state: str) -> None:
    from examples.console.view import TABS

    for tab in TABS:
        browser.open(f"/machines/demo/{tab}")
        # The console and the guest are of machines that it starts.
        if browser.status != (404 if tab in ("console", "guest") else 200):
            raise SystemExit(f"{tab} of a machine that is {state}: status {browser.status}")


def answered(name: str, call: Callable[[], object], died: list[str]) -> None:
    try:
        with lacking():
            call()
    except VmmApiError:
        pass
    except VmmError as error:
        raise SystemExit(f"{name}: {died or error}") from None
    if died:
        raise SystemExit(f"{name}: {died}")
