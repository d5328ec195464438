"""What a machine is made of, and the file to start a monitor with."""

from __future__ import annotations

import json

from tests.console.browser import Browser
from tests.console.running import RunningConsole


def test_the_whole_configuration_is_shown(alice: Browser) -> None:
    alice.click("Save setup", {"machine_config.vcpu_count": "2"})
    alice.open("/machines/demo/configuration")
    assert '"vcpu_count": 2' in alice.text


def test_a_monitor_can_be_started_with_the_file(alice: Browser, console: RunningConsole) -> None:
    alice.click("Save setup")
    alice.open("/machines/demo/configuration")
    alice.open(alice.page.links["Download it"])
    document = json.loads(alice.text)
    kernel = console.host.suggestions["boot_source.kernel_image_path"]
    assert document["boot-source"]["kernel_image_path"] == kernel


def test_there_is_no_file_before_there_is_a_kernel(alice: Browser) -> None:
    alice.open("/machines/demo/configuration")
    assert "Download it" not in alice.page.links
    alice.open("/machines/demo/config-file")
    assert alice.status == 409
    assert "The configuration has no kernel_image_path" in alice.text
