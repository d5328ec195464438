"""Sign in without a browser: the requests that a browser and a user would make."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from http import HTTPStatus
from inspect import iscoroutinefunction
from typing import Any, Final, Protocol, TypeVar
from urllib.parse import urljoin

import httpx

from fastapi_oidc.errors import Code
from fastapi_oidc.testing.pages import PAGE_HEADER

_AS_A_PAGE: Final = {"Accept": "text/html", "Sec-Fetch-Mode": "navigate"}
"""The headers of a navigation in a browser: a page that needs a session redirects to the login.
Without them, the response would be a 401.
"""

_log: Final = logging.getLogger("fastapi_oidc.testing")


class BrowserResponse(Protocol):
    """A response of httpx, httpx2 or Starlette's `TestClient`."""

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
        """The URL after redirects; it has a `host`."""
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
    """A client of httpx or httpx2, or Starlette's `TestClient`."""

    def get(
        self, url: str, /, *, headers: dict[str, str] | None = None, follow_redirects: bool = ...
    ) -> Response:
        """Get a page."""
        ...

    def post(
        self, url: str, /, *, data: dict[str, str] | None = None, follow_redirects: bool = ...
    ) -> Response:
        """Send a form."""
        ...


async def sign_in(browser: httpx.AsyncClient, url: str, *, user: str) -> httpx.Response:
    """Open `url`, choose `user` on the provider's login page, and return the final page.

    `url` may be a page that needs a session, which redirects to the login as in a browser. Raises
    RuntimeError when the client does not reach the provider, TypeError for a sync client. Logged is
    that nobody was signed in.
    """
    if not iscoroutinefunction(browser.get):
        raise TypeError("sign_in is for provider.browser(...); for a test_client use sign_in_sync")
    is_signed_in = bool(browser.cookies)
    answer = await browser.get(url, follow_redirects=True)
    if answer.status_code == HTTPStatus.UNAUTHORIZED:
        answer = await browser.get(url, headers=_AS_A_PAGE, follow_redirects=True)
    _warn_unless(is_signed_in or answer.history, answer)
    while PAGE_HEADER in answer.headers:
        form = _first_form(answer)
        answer = await browser.post(
            form.action, data=form.fields | {"user": user}, follow_redirects=True
        )
    _require_provider(answer)
    return answer


def sign_in_sync(browser: SyncBrowser[Response], url: str, *, user: str) -> Response:
    """Like `sign_in`, for a sync client such as `provider.test_client(app)`."""
    if iscoroutinefunction(browser.get):
        raise TypeError("sign_in_sync is for a test_client; for provider.browser(...) use sign_in")
    is_signed_in = bool(getattr(browser, "cookies", None))
    answer = browser.get(url, follow_redirects=True)
    if answer.status_code == HTTPStatus.UNAUTHORIZED:
        answer = browser.get(url, headers=_AS_A_PAGE, follow_redirects=True)
    _warn_unless(is_signed_in or answer.history, answer)
    while PAGE_HEADER in answer.headers:
        form = _first_form(answer)
        answer = browser.post(form.action, data=form.fields | {"user": user}, follow_redirects=True)
    _require_provider(answer)
    return answer


def _warn_unless(begins: object, answer: BrowserResponse) -> None:
    """Log a page that begins no login."""
    if not begins and answer.status_code < HTTPStatus.INTERNAL_SERVER_ERROR:
        _log.warning(
            "Nobody was signed in: %s begins no login (status %s). Open a page that needs a "
            "session, or /auth/login?return_to=...",
            answer.url,
            answer.status_code,
        )


def _require_provider(answer: BrowserResponse) -> None:
    """Raise RuntimeError for a client that sends all requests to the application.

    An application whose login does not reach the provider is logged.
    """
    is_unreachable = Code.PROVIDER_UNREACHABLE in answer.text and "state=" not in str(answer.url)
    if answer.status_code == HTTPStatus.BAD_GATEWAY and is_unreachable:
        _log.warning(
            "The application does not reach the provider: give it the provider's transport, "
            "OIDC(..., transport=httpx.ASGITransport(provider.app))"
        )
    if answer.status_code != HTTPStatus.NOT_FOUND or not answer.history:
        return
    if answer.url.host != answer.history[0].url.host and "code_challenge=" in str(answer.url):
        raise RuntimeError(
            f"this client does not reach the provider: {answer.url.host} returned 404. Use "
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
