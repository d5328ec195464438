"""What an API says when it refuses an access token (RFC 6750 3, RFC 9110 11.6.1)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

# One element of the list: a scheme, a parameter, or a scheme with its first parameter.
_ELEMENT: Final = re.compile(r'((?:"(?:[^"\\]|\\.)*"|[^,"])+)')
_SCHEME: Final = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+)(?:\s+(?![\s=])|$)")
_ERROR: Final = re.compile(r'error\s*=\s*(?:"([^"]*)"|([^\s"]+))\s*', re.IGNORECASE)
_SCHEMES: Final = ("bearer", "dpop")


def says_invalid_token(challenges: Iterable[str]) -> bool:
    """Whether a WWW-Authenticate header says that the token is over: `error="invalid_token"` of
    the scheme Bearer (RFC 6750 3.1) or DPoP (RFC 9449 7.1)."""
    scheme = ""
    for element in _ELEMENT.findall(",".join(challenges)):
        text = element.strip()
        if (begins := _SCHEME.match(text)) is not None:
            scheme, text = begins[1].lower(), text[begins.end() :]
        error = _ERROR.fullmatch(text)
        if scheme in _SCHEMES and error and "invalid_token" in error.groups():
            return True
    return False
