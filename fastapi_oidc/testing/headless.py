"""Signing in without a screen: the steps a browser and a person would take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from http import HTTPStatus
from typing import Any, Final, Protocol, TypeVar
from urllib.parse import urljoin

import httpx

from fastapi_oidc.testing.pages import PAGE_HEADER

_AS_A_PAGE: Final = {"Accept": "text/html", "Sec-Fetch-Mode": "navigate"}
"""What a browser sends when a person opens an address: a page that needs a session leads to the
login, where a program is answered 401."""


class BrowserResponse(Protocol):
    """What a response of httpx, httpx2 and Starlette's `TestClient` has."""

    @property
    def status_code(self) -> int:
        """The HTTP status."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers, by names in any case."""
        ...

    @property
    def url(self) -> Any:
        """Where it came from, after redirects; with a `host`."""
        ...

    @property
    def history(self) -> list[Any]:
        """The redirects that led to it."""
        ...

    @property
    def text(self) -> str:
        """The body."""
        ...


Response = TypeVar("Response", bound=BrowserResponse, covariant=True)


class SyncBrowser(Protocol[Response]):
    """An `httpx.Client`, or Starlette's `TestClient`, which may be httpx2's."""

    def get(
        self, url: str, /, *, headers: dict[str, str] | None = None, follow_redirects: bool = ...
    ) -> Response:
        """Ask for a page."""
        ...

    def post(
        self, url: str, /, *, data: dict[str, str] | None = None, follow_redirects: bool = ...
    ) -> Response:
        """Send a form."""
        ...


async def sign_in(browser: httpx.AsyncClient, url: str, *, user: str) -> httpx.Response:
    """Opens `url`, chooses `user` when the provider asks, and returns the page it all ends on.

    `url` may be a page that needs a session, which leads to the login as in a person's browser.
    Raises RuntimeError when the client does not reach the provider.
    """
    answer = await browser.get(url, follow_redirects=True)
    if answer.status_code == HTTPStatus.UNAUTHORIZED:
        answer = await browser.get(url, headers=_AS_A_PAGE, follow_redirects=True)
    while PAGE_HEADER in answer.headers:
        form = _first_form(answer)
        answer = await browser.post(
            form.action, data=form.fields | {"user": user}, follow_redirects=True
        )
    _require_provider(answer)
    return answer


def sign_in_sync(browser: SyncBrowser[Response], url: str, *, user: str) -> Response:
    """The same as `sign_in` for a client without `await`, such as `provider.test_client(app)`."""
    answer = browser.get(url, follow_redirects=True)
    if answer.status_code == HTTPStatus.UNAUTHORIZED:
        answer = browser.get(url, headers=_AS_A_PAGE, follow_redirects=True)
    while PAGE_HEADER in answer.headers:
        form = _first_form(answer)
        answer = browser.post(form.action, data=form.fields | {"user": user}, follow_redirects=True)
    _require_provider(answer)
    return answer


def _require_provider(answer: BrowserResponse) -> None:
    """A client whose transport is the application takes every address for the application's."""
    if answer.status_code != HTTPStatus.NOT_FOUND or not answer.history:
        return
    if answer.url.host != answer.history[0].url.host and "code_challenge=" in str(answer.url):
        raise RuntimeError(
            f"this client does not reach the provider: {answer.url.host} responded 404. Make it by "
            "provider.test_client(app, base_url=...) or provider.browser(app, base_url=...)"
        )


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


def _first_form(page: BrowserResponse) -> _Form:
    reader = _FormReader()
    reader.feed(page.text)
    form = reader.forms[0]
    return _Form(urljoin(str(page.url), form.action), form.fields)
