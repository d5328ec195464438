"""From request lines to operations, with the monitor's words for what it does not know."""

from __future__ import annotations

import pytest

from generated_vmm import API_VERSION
from tests.vmm.simulator.caller import Caller


@pytest.mark.parametrize(
    ("method", "path", "body", "fault"),
    [
        ("GET", "/nope", None, "Invalid request method and/or path: GET nope."),
        ("GET", "/nope/more", None, "Invalid request method and/or path: GET nope."),
        ("PUT", "/nope", {}, "Invalid request method and/or path: PUT nope."),
        ("DELETE", "/vsock", None, "Invalid request method and/or path: DELETE vsock."),
        ("GET", "/drives/a", None, "Invalid request method and/or path: GET drives."),
        ("GET", "/vm", None, "Invalid request method and/or path: GET vm."),
        ("PUT", "/vm/config", {}, "Invalid request method and/or path: PUT vm."),
        ("GET", "/hotplug", None, "Invalid request method and/or path: GET hotplug."),
        ("PUT", "/hotplug/cpu", {}, "Invalid request method and/or path: PUT hotplug."),
        ("GET", "/version?x=1", None, "Invalid request method and/or path: GET version?x=1."),
        ("GET", "/vm/config?x=1", None, "Invalid request method and/or path: GET vm."),
        ("PUT", "/snapshot", {}, "Missing snapshot operation type."),
        (
            "PUT",
            "/snapshot/drop",
            {},
            "Invalid request method and/or path: PUT /snapshot/drop.",
        ),
        ("GET", "/balloon/size", None, "Unrecognized GET request path `size`."),
        ("GET", "/balloon/hinting", None, "Unrecognized GET request path `/hinting/`."),
        ("PATCH", "/balloon/hinting/go", {}, "Unrecognized PATCH request path `/hinting/go`."),
        ("PUT", "/mmds/data", {}, "Unrecognized PUT request path `data`."),
        ("PUT", "/boot-source", None, "Empty PUT request."),
        ("PUT", "/nope", None, "Empty PUT request."),
        ("PATCH", "/vm", None, "Empty PATCH request."),
        ("PATCH", "/balloon", None, "Empty PATCH request."),
        ("GET", "/version", {}, "GET request cannot have a body."),
        ("GET", "/nope", {}, "GET request cannot have a body."),
    ],
)
def test_what_there_is_not(call: Caller, method: str, path: str, body: object, fault: str) -> None:
    reply = call(method, path, body)
    assert (reply.status, reply.fault) == (400, fault)


@pytest.mark.parametrize(
    "path",
    ["/version", "/version/", "//version", "/version/more", "http://localhost/version"],
)
def test_more_spellings_than_one_are_understood(call: Caller, path: str) -> None:
    assert call.get(path) == {"firecracker_version": API_VERSION}


def test_the_root_has_spellings_too(call: Caller) -> None:
    assert call.get("http://localhost") == call.get("/")


def test_more_after_the_path_of_a_put_is_ignored(call: Caller) -> None:
    call.accepted("PUT", "/entropy/more/and/more", {})


def test_a_patch_below_balloon_is_one_of_the_balloon(call: Caller) -> None:
    assert call("PATCH", "/balloon/anything", {"amount": 1}).fault.startswith(
        "An error occurred when deserializing the json body of a request: unknown field `amount`, "
        "expected `amount_mib`"
    )
