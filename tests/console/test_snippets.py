"""Calls as code: what is shown to be copied makes the same calls."""

from __future__ import annotations

import json
import shlex
from datetime import UTC, datetime
from pathlib import Path

from examples.console.records import Call
from examples.console.snippets import curl_of, python_of
from generated_vmm.testing import SimulatedMonitor
from tests.console.browser import Browser
from tests.console.running import RunningConsole, running_console, signed_in

READ = ("/", "/vm/config", "/balloon/statistics", "/balloon/hinting/status", "/mmds")
MADE: tuple[tuple[str, str, dict[str, object]], ...] = (
    ("PUT", "/machine-config", {"vcpu_count": 1, "mem_size_mib": 128}),
    ("PUT", "/boot-source", {"kernel_image_path": "/k", "boot_args": "console=ttyS0 it's"}),
    ("PUT", "/drives/root", {"drive_id": "root", "path_on_host": "/d", "is_root_device": True}),
    ("PUT", "/network-interfaces/eth0", {"iface_id": "eth0", "host_dev_name": "tap0"}),
    ("PUT", "/mmds/config", {"network_interfaces": ["eth0"], "version": "V2"}),
    ("PUT", "/mmds", {}),
    ("PUT", "/balloon", {"amount_mib": 0, "deflate_on_oom": True, "stats_polling_interval_s": 1}),
    ("PUT", "/actions", {"action_type": "InstanceStart"}),
    ("PATCH", "/drives/root", {"drive_id": "root", "path_on_host": "/d"}),
    ("PATCH", "/balloon/statistics", {"stats_polling_interval_s": 2}),
    ("PATCH", "/vm", {"state": "Paused"}),
    ("PUT", "/snapshot/create", {"snapshot_path": "/s", "mem_file_path": "/m"}),
    ("PATCH", "/vm", {"state": "Resumed"}),
)
CALLS = [
    Call(datetime.now(UTC), method, path, 1.0, 204, "Alice", body=json.dumps(body))
    for method, path, body in MADE
]


def test_the_python_makes_the_same_calls(tmp_path: Path) -> None:
    with SimulatedMonitor(tmp_path / "vm.socket", check_files=False) as monitor:
        exec(compile(python_of(CALLS, str(monitor.socket_path)), "snippet", "exec"), {})
        made = [(call.method, call.path, call.json()) for call in monitor.calls]
    assert made == [*MADE]


def test_the_shell_gets_each_word_as_it_is() -> None:
    lines = curl_of(CALLS, "/run/vm.socket").splitlines()
    assert len(lines) == len(CALLS)
    words = shlex.split(lines[1])
    assert words[:5] == ["curl", "--unix-socket", "/run/vm.socket", "-X", "PUT"]
    assert json.loads(words[words.index("-d") + 1]) == MADE[1][2]
    assert words[-1] == "http://localhost/boot-source"


def test_a_page_shows_the_calls_of_the_last_change(alice: Browser, console: RunningConsole) -> None:
    alice.open("/machines/demo")
    alice.click("Save setup")
    assert "vm.machine_config.set(" in alice.text
    assert "curl --unix-socket" in alice.text


def test_the_python_reads_what_the_console_has_read() -> None:
    calls = [Call(datetime.now(UTC), "GET", path, 1.0, 200, "") for path in READ]
    lines = [line.strip() for line in python_of(calls, "vm.socket").splitlines()]
    assert [line for line in lines if line.startswith("await")] == [
        "await vm.get_instance_info()",
        "await vm.vm_config.get()",
        "await vm.balloon.stats.get()",
        "await vm.balloon.hinting.status()",
        "await vm.mmds.get()",
    ]


def test_a_page_that_only_shows_has_the_calls_that_it_made() -> None:
    with running_console() as console, signed_in(console) as alice:
        alice.open("/machines/demo")
        assert "await vm.get_instance_info() await vm.vm_config.get()" in alice.text
        assert "http://localhost/vm/config" in alice.text
        alice.click("Save setup")
        assert "await vm.vm_config.get()" not in alice.text
        assert "await vm.boot_source.set(" in alice.text
