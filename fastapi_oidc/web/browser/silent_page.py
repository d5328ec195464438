"""The page that ends a login in the hidden iframe of `<oidc-context>`.

It only posts the outcome to the parent page, which decides what to do. Only a page of the same
origin can frame it and receive the message.
"""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from typing import Final, Literal

from starlette.responses import Response

from fastapi_oidc.errors import Code
from fastapi_oidc.web.headers import UNREFERRED
from fastapi_oidc.web.pages import STYLE, STYLE_SOURCE

_SCRIPT: Final = (
    "const { outcome, code } = document.documentElement.dataset;"
    "parent.postMessage({ type: 'oidc-silent', outcome, code }, location.origin)"
)
_SCRIPT_HASH: Final = b64encode(sha256(_SCRIPT.encode()).digest()).decode()


@dataclass(frozen=True, slots=True)
class SilentPage:
    """The outcome of a silent login; `code` is the stable code of an error, if any."""

    outcome: Literal["same_user", "other_user", "error"]
    code: str = ""

    @classmethod
    def about(cls, code: Code) -> SilentPage:
        """The page for a silent login that failed with this code."""
        other = code is Code.AUTHORIZATION_OTHER_USER
        return cls("other_user" if other else "error", str(code))

    def response(self) -> Response:
        """The page that posts the outcome to the iframe's parent."""
        return Response(self.body, headers=self.headers)

    @property
    def body(self) -> bytes:
        """An HTML document with the same script in every response."""
        return (
            f'<!doctype html><html lang="en" data-outcome="{self.outcome}"'
            f' data-code="{escape(self.code)}"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>Sign-in check</title><style>{STYLE}</style></head><body><main>"
            "<h1>Sign-in check</h1><p>There is nothing to do here. You can close this page.</p>"
            f"</main><script>{_SCRIPT}</script></body></html>"
        ).encode()

    @property
    def headers(self) -> dict[str, str]:
        """The headers: only this script runs, nothing is cached, only this origin can frame it."""
        return UNREFERRED | {
            "Content-Type": "text/html; charset=utf-8",
            "Content-Security-Policy": (
                f"default-src 'none'; script-src 'sha256-{_SCRIPT_HASH}'; {STYLE_SOURCE}; "
                "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
            ),
            "X-Frame-Options": "SAMEORIGIN",
        }
