"""What a machine is made of, and the code that makes it."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

import generated_vmm.machines
from examples.console.hosted import HostedMonitor
from examples.console.in_code import python_of
from generated_vmm import FullVmConfiguration, Vsock
from generated_vmm.machines import Definition, Jail, Machines, TapDevice
from generated_vmm.machines.definition import with_files
from tests.console.browser import Browser, create
from tests.console.running import RunningConsole
from tests.vmm.machines.parts import SIMULATED


def test_the_code_of_a_machine_makes_the_same_one(
    alice: Browser, console: RunningConsole, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice.click("Save setup", {"root_drive.path_on_host": console.suggested_disk})
    alice.open("/machines/demo/configuration")
    monitor = console.host.get("demo")
    assert isinstance(monitor, HostedMonitor)
    assert " ".join(monitor.in_code.split()) in alice.text
    place = console.host.launch.folder / "elsewhere"
    place.mkdir()
    monkeypatch.chdir(place)
    simulated = partial(Machines, binary=SIMULATED, detached=False)
    monkeypatch.setattr(generated_vmm.machines, "Machines", simulated)
    names: dict[str, Any] = {}
    exec(monitor.in_code, names)
    assert all_but_names_of_copies(names["machine"].definition) == all_but_names_of_copies(
        monitor.definition
    )


def all_but_names_of_copies(definition: Definition) -> Definition:
    return definition.replace(
        configuration=with_files(
            definition.configuration, lambda file: file.path.rpartition("-")[0] or file.path
        )
    )


def test_code_has_what_a_definition_has_but_no_secrets() -> None:
    made = Definition(
        metadata={"password": "secret"},
        jail=Jail(cgroups={"cpu.max": "1"}),
        taps=(TapDevice(name="it's"),),
        configuration=FullVmConfiguration(vsock=Vsock(guest_cid=3, uds_path="vsock.socket")),
        agent=1024,
    )
    code = python_of("web", made, Path("/nowhere"))
    assert "secret" not in code
    expression = code[code.index("Definition(\n") : code.rindex(")\n    machine.start()")]
    assert eval(expression, vars(generated_vmm) | vars(generated_vmm.machines)) == made.replace(
        metadata=None
    )


# What a machine is made of is kept, also what no monitor shows, and told to the next monitor


def test_what_cannot_be_told_again_is_a_sentence_and_nothing_is_forgotten(
    alice: Browser, console: RunningConsole
) -> None:
    disk = console.disk("gone")
    create(alice, "lost", root_drive__path_on_host=str(disk), root_drive__is_read_only="true")
    alice.click("Stop")
    disk.unlink()
    alice.click("Start")
    assert alice.status in (422, 507)
    assert str(disk) in alice.text
    assert "lost Ended" in alice.text
    disk.write_bytes(bytes(4096))
    alice.click("Start", sees="lost Running")
