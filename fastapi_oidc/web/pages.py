"""Pages of the library, its script, and headers of all its responses."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from http import HTTPStatus
from pathlib import Path
from typing import Final, Literal, TypeAlias

from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, Response

from fastapi_oidc.errors import Code

NO_STORE: Final = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
"""Caches must not store the response (RFC 9111 5.2.2.5), nor browsers guess its type."""

UNREFERRED: Final = NO_STORE | {"Referrer-Policy": "no-referrer"}
"""Also, the next site does not get the URL, which may have a code or state (RFC 9700 4.2.4)."""

_BROWSER: Final = Path(__file__).parent / "browser"

STYLE: Final = re.sub(r"\s*\n\s*", "", (_BROWSER / "pages.css").read_text())
STYLE_SOURCE: Final = f"style-src 'sha256-{b64encode(sha256(STYLE.encode()).digest()).decode()}'"
"""The Content-Security-Policy source that allows this style only."""


def _headers(form_action: Literal["'none'", "'self'"]) -> dict[str, str]:
    return UNREFERRED | {
        "Content-Security-Policy": (
            f"default-src 'none'; {STYLE_SOURCE}; "
            f"base-uri 'none'; form-action {form_action}; frame-ancestors 'none'"
        ),
        "X-Frame-Options": "DENY",
    }


_HEADERS: Final = _headers("'none'")
# With no-referrer the form's Origin would be "null", which applications refuse.
_HEADERS_OF_FORM: Final = _headers("'self'") | {"Referrer-Policy": "same-origin"}


def document(heading: str, content: str) -> HTMLResponse:
    """A page with this HTML, perhaps a form, without scripts and content of other origins."""
    return HTMLResponse(_html(heading, content), headers=_HEADERS_OF_FORM)


def _html(heading: str, content: str, *, more: str = "") -> str:
    """The HTML of a page; `more` are attributes of its root."""
    return (
        f'<!doctype html><html lang="en"{more}><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="robots" content="noindex">'
        f"<title>{escape(heading)}</title><style>{STYLE}</style></head>"
        f"<body><main><h1>{escape(heading)}</h1>{content}</main></body></html>"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The content of a page. All texts are for users, except `code`.

    `kind` is "refused" for an error with the stable code `code`, and "signed_out" for a sign-out
    during which the provider did not respond. `href` is a URL of this application. A page that
    offers to try again also offers to sign in, with `other_action` and `other_href`.

    "step_up" is for a form that needs a new login, at `href` in a new tab: afterwards a reload of
    the page sends the form again.

    "choose_provider" offers the `choices` of a provider: pairs of a name and a login URL.
    """

    kind: Literal["refused", "signed_out", "step_up", "choose_provider"]
    status: HTTPStatus = HTTPStatus.OK
    heading: str
    text: str = ""
    action: str
    href: str
    code: str = ""
    other_action: str = ""
    other_href: str = ""
    choices: tuple[tuple[str, str], ...] = ()

    def response(self) -> Response:
        """The page as an HTML response."""
        text = f"<p>{escape(self.text)}</p>" if self.text else ""
        code = f"<small>{escape(self.code)}</small>" if self.code else ""
        content = f"{text}{self._links()}{self._other()}{code}"
        return HTMLResponse(_html(self.heading, content), self.status, headers=_HEADERS)

    def _links(self) -> str:
        target = ' target="_blank" rel="noopener"' if self.kind == "step_up" else ""
        links = [
            f'<a href="{escape(href)}"{target}>{escape(action)}</a>'
            for action, href in self.choices or ((self.action, self.href),)
        ]
        return " ".join(links)

    def _other(self) -> str:
        action, href = escape(self.other_action), escape(self.other_href)
        return f' <a class="other" href="{href}">{action}</a>' if action else ""


RenderPage: TypeAlias = Callable[[Request, Page], Response | Awaitable[Response | None] | None]


def signed_out_page(return_to: str) -> Page:
    """The page after a sign-out during which the provider did not respond."""
    return Page(
        kind="signed_out",
        heading="You are signed out here",
        text=(
            "The sign-in service did not respond, so you may still be signed in there. "
            "On a shared computer, close the browser."
        ),
        action="Go on",
        href=return_to,
    )


def chooser_page(choices: tuple[tuple[str, str], ...]) -> Page:
    """The page with the choice of providers: pairs of a name and a login URL."""
    action, href = choices[0]
    return Page(
        kind="choose_provider", heading="Sign in", action=action, href=href, choices=choices
    )


_SCRIPT: Final = (
    "const { outcome, code } = document.documentElement.dataset;"
    "parent.postMessage({ type: 'oidc-silent', outcome, code }, location.origin)"
)
_SCRIPT_HASH: Final = b64encode(sha256(_SCRIPT.encode()).digest()).decode()


def silent_page(code: str = "") -> Response:
    """The page that posts the outcome of a silent login to the iframe's parent.

    `code` is the stable code of an error, if any. Every page has the same script, and only that
    runs. Nothing is cached, and only this origin can frame it.
    """
    outcome = "other_user" if code == Code.AUTHORIZATION_OTHER_USER else "error"
    more = f' data-outcome="{outcome if code else "same_user"}" data-code="{escape(code)}"'
    text = "<p>There is nothing to do here. You can close this page.</p>"
    content = _html("Sign-in check", f"{text}<script>{_SCRIPT}</script>", more=more)
    headers = {
        "Content-Type": "text/html; charset=utf-8",
        "Content-Security-Policy": (
            f"default-src 'none'; script-src 'sha256-{_SCRIPT_HASH}'; {STYLE_SOURCE}; "
            "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
        ),
        "X-Frame-Options": "SAMEORIGIN",
    }
    return Response(content, headers=UNREFERRED | headers)


_COMMENT = re.compile(
    rb"^[ \t]*(?:/\*\*(?:(?!\*/).)*\*/|//[^\n]*)[ \t]*\n", re.MULTILINE | re.DOTALL
)


SCRIPT: Final = _COMMENT.sub(b"", (_BROWSER / "oidc-context.js").read_bytes())
"""The browser component, an ES module without comments on lines of their own."""

SCRIPT_VERSION: Final = sha256(SCRIPT).hexdigest()[:16]


async def serve_script(connection: HTTPConnection) -> Response:
    """The browser component, or 304 for a browser that has this version (RFC 9110 13.1.2).

    Caches keep the URL with this version for a year, and revalidate others.
    """
    etag, is_current = f'"{SCRIPT_VERSION}"', connection.query_params.get("v") == SCRIPT_VERSION
    caching = "public, max-age=31536000, immutable" if is_current else "no-cache"
    headers = {"Cache-Control": caching, "ETag": etag, "X-Content-Type-Options": "nosniff"}
    if etag in connection.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(SCRIPT, media_type="text/javascript; charset=utf-8", headers=headers)
