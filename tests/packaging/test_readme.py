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


def test_the_first_page_leads_to_the_login_and_to_the_sign_out(reader: Reader) -> None:
    for host in ("127.0.0.1", "localhost"):
        with httpx.Client() as browser:
            page = sign_in_sync(browser, f"http://{host}:{reader.port}/me", user="alice")
        assert str(page.url) == f"{reader.address}/me"
        assert page.json()["name"] == "Alice Example"

    headers = {"accept": "text/html", "origin": reader.address}
    with httpx.Client(base_url=reader.address, headers=headers, follow_redirects=True) as browser:
        home = browser.get("/")
        [link] = re.findall(r'<a href="(.*?)">', home.text)
        [(method, action)] = re.findall(r'<form method="(.*?)" action="(.*?)">', home.text)
        assert sign_in_sync(browser, link, user="alice").json()["name"] == "Alice Example"
        for _ in range(2):
            after = browser.request(method, action)
            assert (str(after.url), after.text) == (f"{reader.address}/", home.text)
            assert browser.get(link, follow_redirects=False).status_code == 302
        assert "Sign in" in browser.get(link).text, "the session at the provider has ended too"
