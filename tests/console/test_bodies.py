"""What a browser may send: nothing long, and no files, whoever sends it."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from examples.console.bodies import LONGEST_BODY
from tests.console.running import ALICE, RunningConsole, signed_in

PATHS = ("/account/end-session", "/images/delete", "/machines/demo/stop", "/nowhere")


@pytest.fixture(params=[False, True], ids=["stranger", "admin"])
def client(host: RunningConsole, request: pytest.FixtureRequest) -> Iterator[httpx.Client]:
    with signed_in(host, ALICE) as alice:
        cookies = alice.cookies if request.param else None
        with httpx.Client(base_url=host.url, cookies=cookies, timeout=20) as client:
            yield client


@pytest.mark.parametrize("path", PATHS)
def test_files_are_refused(client: httpx.Client, path: str) -> None:
    answer = client.post(path, files={"file": b"a" * 100})
    assert answer.status_code == 415
    assert "The console takes no files." in answer.text


@pytest.mark.parametrize("path", PATHS)
def test_a_long_form_is_refused(client: httpx.Client, path: str) -> None:
    answer = client.post(path, data={"a": "b" * LONGEST_BODY})
    assert answer.status_code == 413


def test_a_form_that_does_not_say_its_length_is_read_to_the_limit(client: httpx.Client) -> None:
    kind = {"content-type": "application/x-www-form-urlencoded"}
    chunks = (b"a" * 65_536 for _ in range(8))
    answer = client.post("/machines/demo/stop", content=chunks, headers=kind)
    assert answer.status_code in (401, 403, 413)
    assert answer.headers["content-security-policy"]
