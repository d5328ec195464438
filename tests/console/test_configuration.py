"""What a machine is made of, as its page shows it, and as it is kept."""

import re
from html import unescape

from generated_vmm.machines import Definition
from tests.console.browser import Browser, create, do
from tests.console.running import RunningConsole


def test_the_page_shows_a_definition_that_the_library_reads_but_no_secrets(
    alice: Browser, console: RunningConsole
) -> None:
    alice.click("Save setup", {"root_drive.path_on_host": console.suggested_disk})
    do(alice, "demo", "metadata", "Save document", {"document.contents": '{"key": "secret"}'})
    alice.open("/machines/demo/configuration")
    (shown,) = re.findall("<pre[^>]*><code>(.*?)</code></pre>", alice.body, re.DOTALL)
    definition = console.machine().definition
    assert definition.metadata
    assert Definition.model_validate_json(unescape(shown)) == definition.replace(metadata=None)
    assert "secret" not in alice.body


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
