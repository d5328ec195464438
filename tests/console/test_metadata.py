"""The document that the guest can read, and who may read it."""

from __future__ import annotations

import json

import pytest

from tests.console.browser import Browser
from tests.console.machines import start
from tests.console.running import RunningConsole

FIELD = "document.contents"


@pytest.fixture
def metadata(alice: Browser) -> Browser:
    alice.open("/machines/demo/metadata")
    return alice


def test_a_document_is_saved_and_shown(metadata: Browser) -> None:
    document = {"latest": {"meta-data": {"hostname": "démo </textarea>", "gone": None}}}
    metadata.click("Save document", {FIELD: json.dumps(document)})
    assert "Document saved." in metadata.text
    assert json.loads(metadata.field(FIELD)) == document


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        ("{nope", "This is not JSON:"),
        ("[1, 2]", "Enter a JSON object, as in {}."),
        ("", "This is needed."),
    ],
)
def test_what_is_no_document_is_told_at_its_field(
    metadata: Browser, console: RunningConsole, typed: str, sentence: str
) -> None:
    metadata.click("Save document", {FIELD: typed})
    assert metadata.status == 422
    assert sentence in metadata.text
    assert metadata.field(FIELD) == typed
    assert console.machine().definition.metadata is None


def test_access_through_an_unknown_interface_is_told_at_the_start(metadata: Browser) -> None:
    metadata.click("Save access", {"access.network_interfaces": "eth7"})
    start(metadata, "overview")
    metadata.click("Start")
    assert metadata.status == 422
    plain = "There is no such interface. Add it first."
    assert f"Start {plain} The monitor's words MMMDS config" in metadata.text


def test_access_through_two_interfaces(metadata: Browser, console: RunningConsole) -> None:
    metadata.open("/machines/demo/devices")
    for number in ("0", "1"):
        typed = {"network.iface_id": f"eth{number}", "network.host_dev_name": f"tap{number}"}
        metadata.click("Add network interface", typed)
    metadata.open("/machines/demo/metadata")
    metadata.click("Save access", {"access.network_interfaces": "eth0, eth1"})
    assert "Access saved." in metadata.text
    assert metadata.field("access.network_interfaces") == "eth0 eth1"


def test_a_started_machine_without_access_says_so(metadata: Browser) -> None:
    start(metadata, "metadata")
    assert "This machine has started without access to metadata." in metadata.text
    assert not metadata.has_button("Save document")


def test_a_viewer_does_not_see_the_document_which_may_have_secrets(
    metadata: Browser, bob: Browser
) -> None:
    metadata.click("Save document", {FIELD: '{"hostname": "of-demo"}'})
    for tab in ("metadata", "configuration", "overview"):
        bob.open(f"/machines/demo/{tab}")
        assert bob.status == 200
        assert "of-demo" not in bob.body
