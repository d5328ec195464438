"""Headers that keep a response out of caches and its URL out of referrers."""

from __future__ import annotations

from typing import Final

NO_STORE: Final = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
"""No cache stores the response (RFC 9111 5.2.2.5), and no browser takes it for another type."""

UNREFERRED: Final = NO_STORE | {"Referrer-Policy": "no-referrer"}
"""Nor does the next site learn the URL, which may carry a code or a state (RFC 9700 4.2.4)."""
