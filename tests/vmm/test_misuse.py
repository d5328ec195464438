"""Names, options and values that other libraries have, and what is silent beside them."""

import re
from typing import Any

import pytest

from generated_vmm import AsyncMonitor, AsyncVmmClient, Monitor, VmmClient
from generated_vmm.guest import (
    AsyncGuest,
    AsyncGuestPath,
    AsyncProgram,
    Guest,
    GuestPath,
    Program,
)
from generated_vmm.machines import AsyncMachine, AsyncMachines, Machine, Machines

TELLERS: dict[str, tuple[Any, Any]] = {
    "vm": (VmmClient, AsyncVmmClient),
    "monitor": (Monitor, AsyncMonitor),
    "guest": (Guest, AsyncGuest),
    "path": (GuestPath, AsyncGuestPath),
    "program": (Program, AsyncProgram),
    "machine": (Machine, AsyncMachine),
    "machines": (Machines, AsyncMachines),
}


@pytest.mark.parametrize("kind", [kind for pair in TELLERS.values() for kind in pair])
def test_a_name_of_another_library_leads_to_a_member(kind: Any) -> None:
    made = kind.__new__(kind)
    for name in " ".join(kind._elsewhere).split():
        assert not hasattr(kind, name)
        said = f"{kind.__name__} has no member '{name}': "
        with pytest.raises(AttributeError, match=said) as caught:
            getattr(made, name)
        for owner, member in re.findall(r"\b(\w+)\.(\w+)\(", str(caught.value)):
            assert owner not in TELLERS or hasattr(TELLERS[owner][0], member)
    with pytest.raises(AttributeError, match=r"has no member 'fly'$"):
        getattr(made, "fly")  # noqa: B009


def test_a_part_of_a_microvm_is_not_called_itself() -> None:
    vm: Any = VmmClient("/s")
    with pytest.raises(TypeError, match=r'vm.drive\("..."\).set\(...\), where vm is the client'):
        vm.drive.set(drive_id="rootfs", path_on_host="/rootfs", is_root_device=True)
    with pytest.raises(TypeError, match=r"MachineConfigResource is not callable: .* set, update"):
        vm.machine_config(vcpu_count=2, mem_size_mib=512)
