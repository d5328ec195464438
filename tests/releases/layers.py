"""Every member of the client is called on a channel that answers everything.

The console shows its pages of a simulated machine that has everything.

Run in a process of its own, with the package to try as `generated_vmm`.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from generated_vmm import VmmApiError, VmmClient, VmmError, to_config_file
from generated_vmm.testing import SimulatedMonitor
from generated_vmm.testing.description import CURRENT
from tests.vmm.simulator.everything import Bodies

if TYPE_CHECKING:
    from tests.console.browser import Browser

MODEL = re.compile(r"models\.(\w+)")
BEFORE, LATER = ("set",), ("get", "status", "update", "start", "stop", "create", "delete", "load")


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


def calls(vm: VmmClient, bodies: Bodies) -> list[tuple[str, Callable[[], object]]]:
    """All members, those first that configure, each with a body that it takes."""
    found = [*members(vm)]
    for device in ("drive", "network_interface", "pmem"):
        found += members(getattr(vm, device)("a"), device)
    made = [
        (name, partial(call, bodies.of(model)) if model in CURRENT.schemas else call)
        for name, call, model in found
    ]
    return sorted(made, key=lambda one: one[0].rpartition(".")[2] not in BEFORE)


class Everything:
    """A channel on which every call succeeds, with an answer of the described kind."""

    def __init__(self, bodies: Bodies) -> None:
        self._bodies = bodies

    def exchange(self, operation: Any, seconds: float | None) -> Any:
        for known in CURRENT.operations:
            path = re.sub(r"\{\w+\}", r"[^/]+", known.path)
            if known.method == operation.method and re.fullmatch(path, operation.path):
                answer = known.answer and json.dumps(self._bodies.of(known.answer))
                content = (answer or "").encode()
                return SimpleNamespace(status_code=200, headers=[], content=content)
        raise AssertionError(f"no operation for {operation}")

    def close(self) -> None:
        pass


def try_facade(folder: str) -> None:
    """Every member can be called, and what takes several calls works."""
    bodies = Bodies(CURRENT, Path(folder))
    vm = VmmClient("/vm", transport=Everything(bodies))
    for _name, call in calls(vm, bodies):
        with lacking():
            call()
    vm.boot("/kernel", "/disk", bodies.of("MachineConfiguration"))
    vm.pause()
    vm.resume()
    to_config_file(vm.vm_config.get())
    assert vm._vsock_path() == f"{folder}/vsock"


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
        for name, call in calls(vm, Bodies(CURRENT, Path(folder))):
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
    from examples.console.words import TABS

    for tab in TABS:
        browser.open(f"/machines/demo/{tab}")
        # The console and the guest are of machines that it starts.
        if browser.status != (404 if tab in ("console", "guest") else 200):
            raise SystemExit(f"{tab} of a machine that is {state}: status {browser.status}")
