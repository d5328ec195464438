"""A part of the microVM is changed by calls: an assignment is an error that names them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from generated_vmm import AsyncVmmClient

VM = AsyncVmmClient("/nowhere")
ASSIGNED: dict[str, Callable[[], None]] = {
    "machine_config cannot be assigned: only calls change a microVM; "
    "call machine_config.set(...) or machine_config.update(...)": lambda: setattr(
        VM, "machine_config", {"vcpu_count": 2}
    ),
    "vm_config cannot be assigned: only calls change a microVM": lambda: setattr(
        VM, "vm_config", {}
    ),
    "vcpu_count cannot be assigned: only calls change a microVM; "
    "call set(...) or update(...)": lambda: setattr(VM.machine_config, "vcpu_count", 2),
    "timeout cannot be assigned: with_options(timeout=...) returns a client": lambda: setattr(
        VM, "timeout", 900
    ),
    "stats cannot be assigned: only calls change a microVM; call stats.update(...)": lambda: (
        setattr(VM.balloon, "stats", None)
    ),
}


@pytest.mark.parametrize(("message", "assign"), ASSIGNED.items(), ids=[m[:30] for m in ASSIGNED])
def test_it_is_refused(message: str, assign: Callable[[], None]) -> None:
    with pytest.raises(AttributeError) as caught:
        assign()
    assert str(caught.value) == message


def test_a_client_may_have_attributes_of_its_owner() -> None:
    client = AsyncVmmClient("/nowhere")
    client.name = "one"  # type: ignore[attr-defined]  # which is the point
    assert vars(client)["name"] == "one"
