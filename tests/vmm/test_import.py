"""Importing the package gives every name, and costs what the program uses of it."""

from __future__ import annotations

import subprocess
import sys

import pytest

import generated_vmm
from tests.vmm.codegen.descriptions import ROOT

LOADED = """
import sys
import generated_vmm
{use}
parts = "generated_vmm._generated.models.", "generated_vmm.facade._async.", "generated_vmm.process"
print(*sorted(name for name in sys.modules if name.startswith(parts)))
"""


def loaded_by(use: str) -> list[str]:
    """The modules with models and of the async client that a program has after this line."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", LOADED.format(use=use)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return [name.removeprefix("generated_vmm.") for name in done.stdout.split()]


def test_no_model_is_imported_before_it_is_used() -> None:
    assert loaded_by("") == []
    assert loaded_by("generated_vmm.VmmClient('/s').drive('a')") == []
    assert loaded_by("generated_vmm.TokenBucket(size=1, refill_time=1)") == [
        "_generated.models.token_bucket"
    ]


def test_the_async_client_is_imported_when_it_is_used() -> None:
    assert "facade._async.client" in loaded_by("generated_vmm.AsyncVmmClient('/s')")


def test_the_processes_are_imported_when_they_are_used() -> None:
    assert "process" in loaded_by("generated_vmm.Monitor, generated_vmm.AsyncMonitor")


@pytest.mark.parametrize("module", ["httpx", "asyncio"])
def test_what_takes_long_to_import_is_imported_when_it_is_used(module: str) -> None:
    absent, present = f"assert {module!r} not in sys.modules", f"assert {module!r} in sys.modules"
    loaded_by(f"vm = generated_vmm.VmmClient('/s'); {absent}")
    use = {
        "httpx": "import types; transport = types.SimpleNamespace(handle_request=print); "
        "generated_vmm.VmmClient('/s', transport=transport)",
        "asyncio": "generated_vmm.AsyncVmmClient('/s')",
    }
    loaded_by(f"{use[module]}; {present}")


def test_every_name_is_there() -> None:
    for name in generated_vmm.__all__:
        assert getattr(generated_vmm, name) is not None
    assert set(generated_vmm.__all__) <= set(dir(generated_vmm))
    everything: dict[str, object] = {}
    exec("from generated_vmm import *", everything)
    assert set(generated_vmm.__all__) <= everything.keys()


@pytest.mark.parametrize("module", ["generated_vmm", "generated_vmm._generated.models"])
def test_a_name_that_is_not_there_is_an_attribute_error(module: str) -> None:
    __import__(module)
    with pytest.raises(AttributeError, match=f"module '{module}' has no attribute 'Nope'"):
        sys.modules[module].Nope  # noqa: B018  # asking is the test
