"""Step-up, several providers, tenants and front-channel logout: each example by its command."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape

import httpx

from fastapi_oidc.testing import sign_in_sync
from tests.examples.programs import lines_of, started

PAGE = {"Accept": "text/html"}


@contextmanager
def example(name: str) -> Iterator[list[str]]:
    """The URLs that the example says one can open."""
    with started(f"examples.{name}") as process:
        [told] = lines_of(process, 1)
        yield re.findall(r"http://[^\s;,]+", told)


def test_the_vault_asks_for_a_second_factor_and_a_form_is_posted() -> None:
    with example("step_up") as [home, vault], httpx.Client(headers=PAGE) as browser:
        form = sign_in_sync(browser, home, user="alice")
        assert sign_in_sync(browser, vault, user="alice").json() == "Opened with otp"
        token = re.findall(r'name="csrf_token" value="([^"]*)"', form.text)
        data = {"csrf_token": token, "to": "bob"}
        assert browser.post(f"{home}transfer", data=data).json() == "Transferred to bob"


def test_people_of_both_providers_sign_in() -> None:
    people = {"Our staff": ("alice", "Alice"), "Partners": ("carol", "Carol")}
    with example("several_providers") as [home]:
        for label, (user, name) in people.items():
            with httpx.Client(headers=PAGE) as browser:
                page = browser.get(home, follow_redirects=True)
                links = re.findall(r'<a href="([^"]*)">([^<]*)</a>', page.text)
                [path] = [unescape(href) for href, text in links if text == label]
                url = str(page.url.join(path))
                assert sign_in_sync(browser, url, user=user).json() == f"{name} of {label}"


def test_one_browser_is_signed_in_at_two_tenants() -> None:
    with example("tenants") as [acme, globex], httpx.Client(headers=PAGE) as browser:
        assert sign_in_sync(browser, acme, user="alice").json() == "Alice at acme"
        assert sign_in_sync(browser, globex, user="carol").json() == "Carol at globex"
        assert browser.get(acme).json() == "Alice at acme"


def test_a_sign_out_at_the_provider_ends_the_session_by_a_frame() -> None:
    with example("front_channel") as [home, end_session], httpx.Client(headers=PAGE) as browser:
        assert sign_in_sync(browser, home, user="alice").json() == "Hello Alice"
        page = sign_in_sync(browser, end_session, user="alice")
        [frame] = re.findall(r'<iframe src="([^"]*)"', page.text)
        assert httpx.get(unescape(frame)).status_code == 200
        assert browser.get(home).status_code == 302
