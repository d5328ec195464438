"""Every form of the table, once accepted by the monitor and once refused."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

import pytest

from examples.console.changes import CHANGES, CREATE, CREATE_FROM_SNAPSHOT, PRESETS
from examples.console.changes.change import BEFORE_START, Change
from examples.console.changes.devices import PLUGGING
from examples.console.creating import ROOT_DISK
from examples.console.fields import Field
from examples.console.first_machines import BEFORE_THE_START
from examples.console.forms import Section
from examples.console.meanwhile import PageState
from examples.console.versions import version_of
from examples.console.words import HINTS
from generated_vmm import API_VERSION, EntropyDevice, VmmClient
from tests.console.accepted_forms import ACCEPTED, Stage, Typed
from tests.console.browser import Browser
from tests.console.refused_forms import CONFLICTS, REFUSED
from tests.console.running import RunningConsole

MADE_FOR: Final = version_of(API_VERSION)
PLUGS: Final = {("drive", "running"), ("network", "running"), ("pmem", "running")}


def offers(name: str, stage: Stage = "empty") -> bool:
    """Whether the console can make this change with the monitor that its client is made for."""
    if name.endswith("_removal") or (name, stage) in PLUGS:
        return name in CHANGES and MADE_FOR >= PLUGGING
    if name == "serial":  # what is typed is its rate limit
        return MADE_FOR >= (1, 16)
    return name in CHANGES and CHANGES[name].release <= MADE_FOR


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "file").write_bytes(bytes(4096))
    return tmp_path


def bring(console: RunningConsole, stage: Stage, folder: Path) -> None:
    """The machine of the console, with everything that can be set up unless it is to be empty."""
    with VmmClient(console.monitor.socket_path) as vm:
        if stage != "empty":
            furnish(vm, folder)
        if stage in ("running", "paused"):
            vm.action("InstanceStart")
            vm.mmds.set({})
        if stage == "paused":
            vm.pause()


def furnish(vm: VmmClient, folder: Path) -> None:
    file = folder / "file"
    vm.machine_config.set(vcpu_count=1, mem_size_mib=128, track_dirty_pages=True)
    vm.boot_source.set(kernel_image_path=file)
    vm.drive("root").set(path_on_host=file, is_root_device=True)
    vm.drive("data").set(path_on_host=file, is_root_device=False)
    vm.network_interface("eth0").set(host_dev_name="tap0")
    vm.vsock.set(guest_cid=3, uds_path=folder / "vsock")
    balloon = {"amount_mib": 0, "deflate_on_oom": True, "stats_polling_interval_s": 1}
    if offers("hints"):
        balloon["free_page_hinting"] = True
    vm.balloon.set(balloon)
    if offers("pmem"):
        vm.pmem("maps").set(path_on_host=file)
    if offers("memory_hotplug"):
        vm.hotplug_memory.set(total_size_mib=256)
    vm.mmds.config.set(network_interfaces=["eth0"], version="V2")


def filled(typed: Typed, folder: Path) -> Typed:
    places = {"file": str(folder / "file"), "folder": str(folder)}
    return {
        name: text.format(**places) if text.startswith("{f") else text
        for name, text in typed.items()
    }


@pytest.mark.filterwarnings("ignore::generated_vmm.errors.VmmDeprecationWarning")
@pytest.mark.parametrize(
    ("name", "stage", "typed", "call"),
    [pytest.param(*case, id=case[0]) for case in ACCEPTED if offers(*case[:2])],
)
def test_a_form_is_sent(
    alice: Browser,
    console: RunningConsole,
    folder: Path,
    name: str,
    stage: Stage,
    typed: Typed,
    call: str,
) -> None:
    bring(console, stage, folder)
    alice.open(f"/machines/demo/{CHANGES[name].tab}")
    change = CHANGES[name]
    item = f" {call.rpartition('/')[2]}" if change.items else ""
    alice.click(f"{change.button}{item}", filled(typed, folder))
    assert alice.status == 200
    assert change.done in alice.text
    assert console.changes()[-1] == call


@pytest.mark.parametrize(
    ("name", "stage", "typed", "sentence"),
    [pytest.param(*case, id=case[0]) for case in REFUSED if offers(*case[:2])],
)
def test_a_refused_form_says_why_and_keeps_what_was_typed(
    alice: Browser,
    console: RunningConsole,
    folder: Path,
    name: str,
    stage: Stage,
    typed: Typed,
    sentence: str,
) -> None:
    bring(console, stage, folder)
    tab = CHANGES[name].tab
    alice.open(f"/machines/demo/{tab}")
    token = alice.field("csrf_token")
    texts = filled(typed, folder)
    page = str(
        PageState(
            {"empty": "Not started", "furnished": "Not started"}.get(stage, stage.capitalize()),
            "",
            time.time(),
        )
    )
    sent = {"csrf_token": token, "tab": tab, "page": page, "confirmed": "yes"}
    alice.post(f"/machines/demo/{name}", {**texts, **sent})
    assert alice.status == (409 if name in CONFLICTS else 422)
    assert sentence in alice.text
    shown = [form.fields for form in alice.page.forms if form.action.endswith(f"/{name}")]
    kept = {field: text for form in shown for field, text in form.items() if field in texts}
    assert kept == (texts if shown and not CHANGES[name].items else kept)


def test_a_form_whose_fields_the_client_lacks_is_not_offered() -> None:
    gone = _form_of(Field("gone", "Gone", deprecated=True))
    assert not Change(name="entropy", when=BEFORE_START, sections=(gone,)).is_known


@pytest.mark.parametrize("name", ["gone", "rate_limiter.gone", "rate_limiter.ops.gone"])
def test_a_form_with_a_name_that_the_model_has_in_no_release_is_refused(name: str) -> None:
    with pytest.raises(TypeError, match=f"^EntropyDevice has no {name}$"):
        _form_of(Field(name, "Gone"))


def _form_of(field: Field) -> Section:
    return Section(key="entropy", title="", model=EntropyDevice, fields=(field,))


@pytest.mark.since("1.16")
def test_every_text_for_a_form_is_of_one_of_its_fields() -> None:
    made = [CREATE, CREATE_FROM_SNAPSHOT, *CHANGES.values()]
    sections = [section for change in made for section in change.sections]
    fields = {f"{section.key}.{one.name}" for section in sections for one in section.fields}
    texts = (*PRESETS.values(), *BEFORE_THE_START.values(), HINTS)
    assert {name for one in texts for name in one} <= fields
    assert {ROOT_DISK, "named_snapshot.name", "vsock.uds_path", "clone.name"} <= fields


def test_no_form_is_left_out() -> None:
    hosted = {name for name, change in CHANGES.items() if change.hosted}
    assert {case[0] for case in ACCEPTED} | hosted | {"restore"} >= set(CHANGES)
    assert {case[0] for case in REFUSED} >= set(CHANGES)
