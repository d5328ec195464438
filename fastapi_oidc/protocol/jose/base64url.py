"""base64url without padding, read strictly: one text for one value (RFC 7515 2, RFC 4648 3.5)."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode


def encode(octets: bytes) -> str:
    """`octets` in base64url without padding."""
    return urlsafe_b64encode(octets).rstrip(b"=").decode("ascii")


def decode(text: str) -> bytes:
    """What `encode` made `text` from; raises ValueError when it made it from nothing."""
    octets = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    # Python's decoder skips foreign characters, so only the way back shows that there were none.
    if encode(octets) != text:
        raise ValueError("not base64url")
    return octets
