"""Boot source, machine configuration, start, pause, resume, end."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from generated_vmm import API_VERSION
from generated_vmm.testing import SimulatedMonitor
from tests.vmm.simulator.caller import Caller, shows


def act(action_type: str) -> tuple[str, str, object]:
    return "PUT", "/actions", {"action_type": action_type}


def test_a_fresh_monitor_describes_itself(call: Caller) -> None:
    assert call.get("/") == {
        "id": "anonymous-instance",
        "state": "Not started",
        "vmm_version": API_VERSION,
        "app_name": "Firecracker",
    }
    assert call.get("/version") == {"firecracker_version": API_VERSION}


def test_start_pause_and_resume_show_in_the_state(call: Caller, start: Callable[[], None]) -> None:
    start()
    assert call.get("/")["state"] == "Running"
    call.accepted("PATCH", "/vm", {"state": "Paused"})
    assert call.get("/")["state"] == "Paused"
    call.accepted("PATCH", "/vm", {"state": "Resumed"})
    assert call.get("/")["state"] == "Running"


@pytest.mark.parametrize(("state", "shown"), [("Paused", "Paused"), ("Resumed", "Running")])
def test_the_same_state_twice_is_accepted(
    call: Caller, start: Callable[[], None], state: str, shown: str
) -> None:
    start()
    call.accepted("PATCH", "/vm", {"state": state})
    call.accepted("PATCH", "/vm", {"state": state})
    assert call.get("/")["state"] == shown


def test_a_guest_told_to_reboot_ends_the_process(
    monitor: SimulatedMonitor, call: Caller, start: Callable[[], None]
) -> None:
    start()
    call.accepted(*act("SendCtrlAltDel"))
    assert monitor.exit_code == 0
    with pytest.raises(ConnectionRefusedError):
        call("GET", "/")
    assert monitor.socket_path.exists()


def test_a_paused_guest_reboots_when_it_goes_on(
    monitor: SimulatedMonitor, call: Caller, start: Callable[[], None]
) -> None:
    start()
    call.accepted("PATCH", "/vm", {"state": "Paused"})
    call.accepted(*act("SendCtrlAltDel"))
    assert monitor.exit_code is None
    call.accepted("PATCH", "/vm", {"state": "Resumed"})
    assert monitor.exit_code == 0


BAD_COUNT = (
    "Machine config error: The number of vCPUs must be greater than 0, less than 32 and must be "
    "1 or an even number if SMT is enabled."
)
BAD_MEMORY = (
    "Machine config error: The memory size (MiB) is either 0, or not a multiple of the configured "
    "page size."
)
CPUID_LEAF = {"leaf": "0x1", "subleaf": "0b0", "flags": 0, "modifiers": []}
VALID = {"vcpu_count": 2, "mem_size_mib": 256}


def test_the_defaults_of_a_fresh_monitor(call: Caller) -> None:
    assert shows(
        call.get("/machine-config"),
        {
            "vcpu_count": 1,
            "mem_size_mib": 128,
            "smt": False,
            "track_dirty_pages": False,
            "huge_pages": "None",
        },
    )


def test_put_sets_everything(call: Caller) -> None:
    body = VALID | {"smt": True, "track_dirty_pages": True, "huge_pages": "2M"}
    call.accepted("PUT", "/machine-config", body)
    assert shows(call.get("/machine-config"), body)


def test_patch_leaves_what_it_does_not_name(call: Caller) -> None:
    call.accepted("PUT", "/machine-config", VALID | {"smt": True})
    call.accepted("PATCH", "/machine-config", {"mem_size_mib": 512, "vcpu_count": None})
    config = call.get("/machine-config")
    assert (config["vcpu_count"], config["mem_size_mib"], config["smt"]) == (2, 512, True)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"vcpu_count": 0}, BAD_COUNT),
        ({"vcpu_count": 33}, BAD_COUNT),
        ({"vcpu_count": 3, "smt": True}, BAD_COUNT),
        ({"mem_size_mib": 0}, BAD_MEMORY),
        ({"mem_size_mib": 257, "huge_pages": "2M"}, BAD_MEMORY),
    ],
)
def test_an_impossible_machine_is_refused(
    call: Caller, change: dict[str, object], fault: str
) -> None:
    assert call("PUT", "/machine-config", VALID | change).fault == fault


@pytest.mark.parametrize("change", [{"vcpu_count": 32}, {"vcpu_count": 1, "smt": True}])
def test_the_limits_themselves_are_accepted(call: Caller, change: dict[str, object]) -> None:
    call.accepted("PUT", "/machine-config", VALID | change)


def test_a_template_stays_until_another_one_or_none_is_named(call: Caller) -> None:
    call.accepted("PUT", "/machine-config", VALID | {"cpu_template": "T2"})
    call.accepted("PUT", "/machine-config", VALID)
    assert call.get("/machine-config")["cpu_template"] == "T2"
    call.accepted("PATCH", "/machine-config", {"cpu_template": "None"})
    assert "cpu_template" not in call.get("/machine-config")


def test_a_custom_template_takes_the_place_of_a_static_one(call: Caller) -> None:
    call.accepted("PUT", "/machine-config", VALID | {"cpu_template": "T2"})
    modifier = {"register": "eax", "bitmap": "0b1x_0"}
    leaf = CPUID_LEAF | {"modifiers": [modifier]}
    msr = {"addr": "0x10a", "bitmap": "xx"}
    call.accepted(
        "PUT",
        "/cpu-config",
        {"kvm_capabilities": ["!121"], "cpuid_modifiers": [leaf], "msr_modifiers": [msr]},
    )
    assert "cpu_template" not in call.get("/machine-config")
    assert call.get("/vm/config")["cpu-config"] is None


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"reg_modifiers": []}, "unknown field `reg_modifiers`"),
        ({"msr_modifiers": [{"addr": "12", "bitmap": "x"}]}, "as a number for CPU template"),
        ({"msr_modifiers": [{"addr": "0xg", "bitmap": "x"}]}, "Failed to parse string [0xg] as"),
        ({"msr_modifiers": [{"addr": "0x1", "bitmap": "2"}]}, "as a bitmap"),
        (
            {"cpuid_modifiers": [CPUID_LEAF | {"modifiers": [{"register": "e", "bitmap": "1"}]}]},
            "Invalid CPUID register.",
        ),
        ({"cpuid_modifiers": [CPUID_LEAF | {"leaf": "0b"}]}, "as a number for CPU template"),
        (
            {"cpuid_modifiers": [CPUID_LEAF | {"subleaf": "0x100000000"}]},
            "as a number for CPU template",
        ),
        ({"kvm_capabilities": ["?"]}, "Failed to parse string [?]"),
    ],
)
def test_a_bad_template_is_refused(call: Caller, body: object, words: str) -> None:
    assert words in call("PUT", "/cpu-config", body).fault
