"""Signing in without a screen: the steps a browser and a person would take."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from http import HTTPStatus
from typing import Final
from urllib.parse import urljoin

import httpx

from fastapi_oidc.testing.pages import PAGE_HEADER

_AS_A_PAGE: Final = {"Accept": "text/html", "Sec-Fetch-Mode": "navigate"}
"""What a browser sends when a person opens an address: a page that needs a session leads to the
login, where a program is answered 401."""


async def sign_in(browser: httpx.AsyncClient, url: str, *, user: str) -> httpx.Response:
    """Opens `url`, chooses `user` when the provider asks, and returns the page it all ends on.

    `url` may be a page that needs a session, which leads to the login as in a person's browser.
    """
    answer = await browser.get(url, follow_redirects=True)
    if answer.status_code == HTTPStatus.UNAUTHORIZED:
        answer = await browser.get(url, headers=_AS_A_PAGE, follow_redirects=True)
    while PAGE_HEADER in answer.headers:
        form = _first_form(answer)
        answer = await browser.post(
            form.action, data=form.fields | {"user": user}, follow_redirects=True
        )
    return answer


def sign_in_sync(browser: httpx.Client, url: str, *, user: str) -> httpx.Response:
    """The same as `sign_in` for a client without `await`."""
    answer = browser.get(url, follow_redirects=True)
    if answer.status_code == HTTPStatus.UNAUTHORIZED:
        answer = browser.get(url, headers=_AS_A_PAGE, follow_redirects=True)
    while PAGE_HEADER in answer.headers:
        form = _first_form(answer)
        answer = browser.post(form.action, data=form.fields | {"user": user}, follow_redirects=True)
    return answer


@dataclass(slots=True)
class _Form:
    action: str = ""
    fields: dict[str, str] = field(default_factory=dict)


class _FormReader(HTMLParser):
    """Collects the forms of a page with their input fields."""

    def __init__(self) -> None:
        super().__init__()
        self.forms: list[_Form] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.forms.append(_Form(values.get("action", "")))
        elif tag == "input" and self.forms:
            self.forms[-1].fields[values.get("name", "")] = values.get("value", "")


def _first_form(page: httpx.Response) -> _Form:
    reader = _FormReader()
    reader.feed(page.text)
    form = reader.forms[0]
    return _Form(urljoin(str(page.url), form.action), form.fields)
