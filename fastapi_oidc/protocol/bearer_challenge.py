"""Reads the challenges of APIs that refuse an access token (RFC 6750 3, RFC 9110 11.6.1)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

# An element of the list: a scheme, a parameter, or a scheme with its first parameter. Quoted text
# is never matched in another way, so matching takes linear time.
_ELEMENT: Final = re.compile(r'(?:"(?:[^"\\]|\\.)*+\\?(?:"|\Z)|[^,"])++', re.DOTALL)
_SCHEME: Final = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+)(?:\s+(?![\s=])|$)")
_ERROR: Final = re.compile(r'error\s*=\s*(?:"([^"]*)"|([^\s"]+))\s*', re.IGNORECASE)
_SCHEMES: Final = ("bearer", "dpop")

MAX_LENGTH: Final = 4096
"""Maximum length, in characters, of challenges that are read; longer ones are ignored."""


def refuses(challenges: Iterable[str], error: str) -> bool:
    """Whether a WWW-Authenticate header has this `error` in a challenge of the scheme Bearer
    (RFC 6750 3.1: "invalid_token") or DPoP (RFC 9449 7.1 and 9: "use_dpop_nonce" too)."""
    scheme, joined = "", ",".join(challenges)
    for element in _ELEMENT.findall(joined) if len(joined) <= MAX_LENGTH else ():
        text = element.strip()
        if (begins := _SCHEME.match(text)) is not None:
            scheme, text = begins[1].lower(), text[begins.end() :]
        found = _ERROR.fullmatch(text)
        if scheme in _SCHEMES and found and error in found.groups():
            return True
    return False
