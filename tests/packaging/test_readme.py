"""The README's application, started as the README says: two commands in two terminals."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from fastapi_oidc.testing import sign_in_sync
from tests.packaging.built import REPOSITORY
from tests.packaging.tutorial import Reader

README = (REPOSITORY / "README.md").read_text()
FIRST_PROGRAM = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    program = FIRST_PROGRAM.search(README)
    assert program is not None
    (tmp_path / "app.py").write_text(program[1])
    reader = Reader(tmp_path)
    with reader.two_terminals():
        yield reader


def test_it_names_the_two_commands() -> None:
    assert "\npython -m fastapi_oidc.testing\n" in README
    assert "\nuvicorn app:app " in README


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_whoever_opens_the_page_signs_in_by_either_name_of_the_machine(
    reader: Reader, host: str
) -> None:
    with httpx.Client() as browser:
        page = sign_in_sync(browser, f"http://{host}:{reader.port}/me", user="alice")
    assert str(page.url) == f"{reader.address}/me"
    assert page.json()["name"] == "Alice Example"
