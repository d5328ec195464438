"""JWTs written as what they say, so that what several of them say takes room once when deflated.

base64 hides repetition from a compressor. Each part of a token that is base64url of JSON is
written as that JSON, between two bytes that neither JSON nor base64 has.
"""

from __future__ import annotations

import re
from typing import Final

from fastapi_oidc.protocol.jose import base64url

_BEGINS, _ENDS = b"\x01", b"\x00"
_JSON_PART: Final = re.compile(rb'(?<=[".])eyJ[A-Za-z0-9_-]+')  # eyJ is {" in base64
_OPENED_PART: Final = re.compile(rb"\x01([^\x00]*)\x00")


def opened(encoded: bytes) -> bytes:
    """`encoded`, which is JSON, with its tokens opened; what could not be undone is left alone."""
    return _JSON_PART.sub(_opened_part, encoded)


def closed(text: bytes) -> bytes:
    """What `opened` was given."""
    return _OPENED_PART.sub(_closed_part, text)


def _opened_part(found: re.Match[bytes]) -> bytes:
    part = found[0]
    try:
        content = base64url.decode(part.decode())
    except ValueError:
        return part
    return part if _ENDS in content else _BEGINS + content + _ENDS


def _closed_part(found: re.Match[bytes]) -> bytes:
    return base64url.encode(found[1]).encode()
