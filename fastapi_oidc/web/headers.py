"""Headers that keep a response out of caches and its URL out of referrers."""

from __future__ import annotations

from typing import Final

NO_STORE: Final = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
"""Caches must not store the response (RFC 9111 5.2.2.5), nor browsers guess its type."""

UNREFERRED: Final = NO_STORE | {"Referrer-Policy": "no-referrer"}
"""Also, the next site does not get the URL, which may have a code or state (RFC 9700 4.2.4)."""
