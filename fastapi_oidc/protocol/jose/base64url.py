"""base64url without padding, read strictly: one text for one value (RFC 7515 2, RFC 4648 3.5)."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from binascii import a2b_base64

# The two characters that base64url replaces, and padding, become foreign ones.
_TO_BASE64 = bytes.maketrans(b"-_+/=", b"+/\x00\x00\x00")

# What the last character may be by length modulo 4, so that the bits it has too many are zero.
_LAST_CHARACTERS = {1: "", 2: "AQgw", 3: "AEIMQUYcgkosw048"}


def encode(octets: bytes) -> str:
    """`octets` in base64url without padding."""
    return urlsafe_b64encode(octets).rstrip(b"=").decode("ascii")


def decode(text: str) -> bytes:
    """What `encode` made `text` from; raises ValueError when it made it from nothing."""
    surplus = len(text) % 4
    if surplus and text[-1] not in _LAST_CHARACTERS[surplus]:
        raise ValueError("not base64url")
    padding = b"=" * (-surplus % 4)
    return a2b_base64(text.encode("ascii").translate(_TO_BASE64) + padding, strict_mode=True)
