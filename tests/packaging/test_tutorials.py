"""The tutorials, followed from an empty folder to what they promise."""

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from fastapi_oidc.testing import sign_in_sync
from tests.examples.programs import new_browser
from tests.packaging.tutorial import Reader


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    return Reader(tmp_path)


@pytest.fixture
def browser(reader: Reader) -> Iterator[httpx.Client]:
    with new_browser(base_url=reader.address, headers={"accept": "text/html"}) as client:
        yield client


def test_a_page_greets_who_signed_in_and_signs_out(reader: Reader, browser: httpx.Client) -> None:
    reader.write_files("sign-in")
    with reader.two_terminals():
        assert "Who am I?" in browser.get("/").text
        assert "Hello, Alice Example" in sign_in_sync(browser, "/me", user="alice").text
        assert "Hello, Alice Example" in browser.get("/me").text
        origin = {"origin": reader.address}
        browser.post("/auth/logout", headers=origin, follow_redirects=True)
        assert browser.get("/me").status_code == 302
        assert httpx.get(f"{reader.address}/me").status_code == 401


def test_an_api_beside_pages(reader: Reader, browser: httpx.Client) -> None:
    reader.write_files("api-and-pages")
    with reader.two_terminals(), new_browser(base_url=reader.address) as script:
        assert script.get("/api/notes").status_code == 401
        page = sign_in_sync(browser, "/", user="bob").text
        token = {"x-csrf-token": re.findall(r"'X-CSRF-Token': '(.*?)'", page)[0]}
        assert "Notes of Bob Example" in page
        assert browser.post("/api/notes?note=Hi").status_code == 403
        assert browser.post("/api/notes?note=Hi", headers=token).json() == {
            "added": "Bob Example: Hi"
        }
        refused = browser.delete("/api/notes", headers=token | {"accept": "application/json"})
        assert (refused.status_code, "detail" in refused.json()) == (403, True)

        admin = sign_in_sync(script, "/", user="alice").text
        token = {"x-csrf-token": re.findall(r"'X-CSRF-Token': '(.*?)'", admin)[0]}
        assert script.delete("/api/notes", headers=token).status_code == 204
        assert script.get("/api/notes").json() == []
