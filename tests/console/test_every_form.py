"""Every form of the table: what it saves is there again, and what is refused says why."""

from typing import Final, Literal, NamedTuple

import pytest

from examples.console.changes import CHANGES, CREATE, CREATE_FROM_SNAPSHOT
from examples.console.changes.change import STOPPED, Change
from examples.console.creating import WAYS
from examples.console.demo import SIZE
from examples.console.forms import Field, Section
from examples.console.words import HINTS
from generated_vmm import (
    Balloon,
    BootSource,
    Drive,
    FullVmConfiguration,
    MachineConfiguration,
    MemoryHotplugConfig,
    MmdsConfig,
    NetworkInterface,
    Vsock,
)
from generated_vmm.machines import Definition
from tests.console.browser import Browser
from tests.console.running import RunningConsole

Stage = Literal["stopped", "running", "paused"]
START, STOP = "Start the machine first.", "Stop the machine first."
NUMBER, NEEDED = "Input should be a valid integer", "Field required."
DISK: Final = "root_drive.path_on_host"


class Case(NamedTuple):
    """What is saved in a stage, and what is refused there or, if nothing is typed, in another."""

    stage: Stage
    typed: dict[str, str]
    refused: dict[str, str]
    why: str


FORMS: Final[dict[str, Case]] = {
    "start": Case("stopped", {}, {}, STOP),
    "pause": Case("running", {}, {}, START),
    "resume": Case("paused", {}, {}, START),
    "ctrl_alt_del": Case("running", {}, {}, START),
    "stop": Case("running", {}, {}, START),
    "delete": Case("stopped", {}, {}, STOP),
    "setup": Case(
        "stopped",
        {"machine_config.mem_size_mib": "256"},
        {"machine_config.mem_size_mib": "much"},
        NUMBER,
    ),
    "drive": Case(
        "stopped",
        {"drive.drive_id": "more", "drive.path_on_host": "{disk}", "drive.is_read_only": "true"},
        {"drive.drive_id": "rootfs", "drive.path_on_host": "{disk}"},
        "There is a device called rootfs.",
    ),
    "drive_anew": Case(
        "stopped",
        {"drive_anew.io_engine": "Async"},
        {"drive_anew.drive_id": "rootfs", "drive_anew.path_on_host": "/nowhere"},
        "/nowhere",
    ),
    "drive_removal": Case("stopped", {}, {}, STOP),
    "grow": Case(
        "running",
        {"growth.size_mib": "2"},
        {"growth.drive_id": "rootfs", "growth.size_mib": "0"},
        "Input should be greater than or equal to 1.",
    ),
    "network": Case(
        "stopped",
        {"network.iface_id": "eth1", "network.host_dev_name": "tap1"},
        {"network.iface_id": "e th", "network.host_dev_name": "tap1"},
        "A name has letters, digits and underscores.",
    ),
    "network_anew": Case(
        "stopped",
        {"network_anew.host_dev_name": "tap2", "network_anew.guest_mac": "06:00:00:00:00:01"},
        {"network_anew.iface_id": "eth0", "network_anew.host_dev_name": ""},
        NEEDED,
    ),
    "network_removal": Case("stopped", {}, {}, STOP),
    "vsock": Case("stopped", {"vsock.guest_cid": "7"}, {"vsock.guest_cid": "2"}, "Input should be"),
    "balloon_size": Case(
        "running",
        {"balloon_size.amount_mib": "32"},
        {"balloon_size.amount_mib": "4096"},
        "Requested memory should be less than",
    ),
    "memory_hotplug": Case(
        "stopped",
        {"memory_hotplug.total_size_mib": "512"},
        {"memory_hotplug.total_size_mib": ""},
        NEEDED,
    ),
    "memory_size": Case(
        "running",
        {"memory_size.requested_size_mib": "128"},
        {"memory_size.requested_size_mib": "4096"},
        "it must be a multiple of block size",
    ),
    "metadata": Case(
        "running",
        {"document.contents": '{\n  "a": "</textarea> démo"\n}'},
        {"document.contents": "[]"},
        "Input should be a valid dictionary",
    ),
    "access": Case(
        "stopped",
        {"access.network_interfaces": "eth0", "access.ipv4_address": "169.254.1.1"},
        {"access.network_interfaces": "eth0", "access.ipv4_address": "10.0.0.1"},
        "Link-local address that the guest asks, 169.254.169.254 when absent. Link-local",
    ),
    "named_snapshot": Case(
        "running", {"named_snapshot.name": "new"}, {"named_snapshot.name": ""}, NEEDED
    ),
    "clone": Case(
        "running",
        {"clone.name": "copy", "clone.taps": "eth0=tap7"},
        {"clone.name": "demo", "clone.taps": "eth0=tap7"},
        "There is a machine called demo.",
    ),
    "policy": Case(
        "running",
        {"policy.autostart": "true", "policy.order": "3", "policy.restart": "always"},
        {"policy.order": "first"},
        NUMBER,
    ),
}
LEAVING: Final = {"named_snapshot", "clone", "grow", "memory_size"}
"""Forms that do not show again what they were sent."""


def furnished(console: RunningConsole) -> Definition:
    """Everything that can be set up."""
    known = console.host.suggestions
    configuration = FullVmConfiguration(
        boot_source=BootSource(kernel_image_path=known["boot_source.kernel_image_path"]),
        machine_config=MachineConfiguration(vcpu_count=1, mem_size_mib=128),
        drives=[Drive(drive_id="rootfs", is_root_device=True, path_on_host=console.suggested_disk)],
        network_interfaces=[NetworkInterface(iface_id="eth0", host_dev_name="tap0")],
        vsock=Vsock(guest_cid=3, uds_path="vsock.socket"),
        balloon=Balloon(amount_mib=0, deflate_on_oom=True),
        memory_hotplug=MemoryHotplugConfig(total_size_mib=256),
        mmds_config=MmdsConfig(network_interfaces=["eth0"], version="V2"),
    )
    return Definition(configuration=configuration)


async def bring(console: RunningConsole, stage: Stage) -> None:
    """The machine of the console, with everything, in that stage."""
    machine = console.machine()
    await machine.edit(furnished(console))
    if stage != "stopped":
        await machine.start()
        await console.drivers_are_up()
    if stage == "paused":
        await machine.pause()


def open_form(browser: Browser, console: RunningConsole, name: str, stage: Stage) -> None:
    console.server.do(bring(console, stage))
    browser.open(f"/machines/demo/{CHANGES[name].tab}")


def filled(typed: dict[str, str], console: RunningConsole) -> dict[str, str]:
    disk = console.suggested_disk
    return {name: disk if text == "{disk}" else text for name, text in typed.items()}


@pytest.mark.since("1.14")
@pytest.mark.parametrize("name", FORMS)
def test_what_a_form_saves_is_there_again(
    alice: Browser, console: RunningConsole, name: str
) -> None:
    change, case = CHANGES[name], FORMS[name]
    open_form(alice, console, name, case.stage)
    typed = filled(case.typed, console)
    item = {"drive": " rootfs", "network": " eth0"}.get(change.tab and name.partition("_")[0], "")
    alice.click(f"{change.button}{item if change.items else ''}", typed)
    assert alice.status == 200
    assert change.done in alice.text or f"{change.done.removesuffix('.')}:" in alice.text
    if not change.items and name not in LEAVING | {"drive", "network"}:
        assert {field: alice.field(field) for field in typed} == typed
    alice.open("/machines/copy")
    if name == "clone":
        assert "copy Running" in alice.text


@pytest.mark.since("1.14")
@pytest.mark.parametrize("name", FORMS)
def test_a_refused_form_says_why_and_keeps_what_was_typed(
    alice: Browser, console: RunningConsole, name: str
) -> None:
    change, case = CHANGES[name], FORMS[name]
    opposite: Stage = "running" if case.stage == "stopped" else "stopped"
    open_form(alice, console, name, case.stage if case.refused else opposite)
    before = console.machine().definition
    texts = filled(case.refused, console)
    if name.endswith("_removal"):
        texts = {f"{name}.name": "rootfs"}
    page = alice.field("page") if not case.refused else page_of(alice, name)
    sent = {"csrf_token": alice.field("csrf_token"), "tab": change.tab, "confirmed": "yes"}
    alice.post(f"/machines/demo/{name}", {**texts, **sent, "page": page})
    assert alice.status == (422 if case.refused else 409)
    assert case.why in alice.text
    shown = [form.fields for form in alice.page.forms if form.action.endswith(f"/{name}")]
    if case.refused:
        kept = [fields for fields in shown if all(fields.get(one) == texts[one] for one in texts)]
        assert len(kept) == 1
    assert console.machine().definition == before


def page_of(browser: Browser, name: str) -> str:
    """The state that the form carries."""
    return browser.form_of(f"/{name}")["page"]


def test_no_form_is_left_out() -> None:
    assert set(FORMS) >= set(CHANGES)


def test_a_form_whose_fields_the_client_lacks_is_not_offered() -> None:
    section = Section(key="entropy", title="", model=Vsock, fields=())
    assert not Change(name="entropy", when=STOPPED, sections=(section,)).is_known


def test_a_form_with_a_name_that_the_model_has_in_no_release_is_refused() -> None:
    with pytest.raises(TypeError, match=r"^Vsock has no gone$"):
        Section(key="vsock", title="", model=Vsock, fields=(Field("gone", "Gone"),))


@pytest.mark.since("1.16")
def test_every_text_for_a_form_is_of_one_of_its_fields() -> None:
    made = [CREATE, CREATE_FROM_SNAPSHOT, *CHANGES.values(), *WAYS.values()]
    sections = [section for change in made for section in change.sections]
    fields = {f"{section.key}.{one.name}" for section in sections for one in section.fields}
    texts = (SIZE, HINTS)
    assert {name for one in texts for name in one} <= fields
    assert {DISK, "named_snapshot.name", "clone.name"} <= fields
