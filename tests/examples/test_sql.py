"""`python -m examples.sql`: sessions are listed, ended, and survive a restart."""

import re
import secrets
import subprocess
from pathlib import Path

import httpx

from fastapi_oidc.testing import sign_in_sync
from tests.examples.programs import lines_of, new_browser, reserved_port, started


def address(process: subprocess.Popen[str]) -> str:
    [told] = lines_of(process, 1)
    [url] = re.findall(r"http://\S+/", told)
    return str(url)


def listed(browser: httpx.Client, url: str) -> int:
    """How many sessions the page lists; it must be the page, not a login."""
    page = browser.get(url)
    assert page.status_code == 200, page.text
    return page.text.count("<li>")


def test_a_user_sees_and_ends_a_session_in_another_browser(tmp_path: Path) -> None:
    database = f"sqlite+aiosqlite:///{tmp_path / 'sessions.db'}"
    with (
        started("examples.sql", DATABASE=database, PROVIDER_PORT="0") as process,
        new_browser() as laptop,
        new_browser() as phone,
        new_browser() as other,
    ):
        url = address(process)
        sign_in_sync(phone, url, user="alice")
        page = sign_in_sync(laptop, url, user="alice")
        bobs = sign_in_sync(other, url, user="bob")
        assert (page.text.count("<li>"), bobs.text.count("<li>")) == (2, 1)
        [end] = re.findall(r'action="(/sessions/[^"]+)"', page.text)
        [token] = re.findall(r'name="csrf_token" value="([^"]+)"', page.text)
        form = {"csrf_token": token}
        assert other.post(url + end[1:], data=form).status_code == 403, "of another session"
        assert laptop.post(url + end[1:], data=form).status_code == 303
        assert listed(laptop, url) == 1
        assert phone.get(url).status_code == 401


def test_sessions_survive_a_restart(tmp_path: Path) -> None:
    with reserved_port() as port, reserved_port() as provider, new_browser() as browser:
        environment = {
            "DATABASE": f"sqlite+aiosqlite:///{tmp_path / 'sessions.db'}",
            "COOKIE_SECRET": secrets.token_urlsafe(32),
            "PORT": str(port.getsockname()[1]),
            "PROVIDER_PORT": str(provider.getsockname()[1]),
        }
        with started("examples.sql", **environment) as process:
            sign_in_sync(browser, address(process), user="alice")
        with started("examples.sql", **environment) as process:
            assert listed(browser, address(process)) == 1
