"""Which host names an HTTP client and a browser read alike (RFC 3986 3.2.2, RFC 1123 2.1)."""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Final

import idna

MAX_HOST_LENGTH: Final = 253
"""Characters of the longest name in the DNS (RFC 1035 2.3.4)."""

_AUTHORITY: Final = re.compile(r"(?P<host>\[[^\]]*\]|[^:\[\]]+)(?::(?P<port>[0-9]{0,5}))?")
_LABEL: Final = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")


def is_authority(text: str) -> bool:
    """Whether `text` is a host that can be asked, with a port or without; no user information."""
    parts = _AUTHORITY.fullmatch(text)
    return (
        parts is not None and int(parts["port"] or 0) <= 65535 and _is_host(parts["host"].lower())
    )


def _is_host(host: str) -> bool:
    if host.startswith("["):
        return _is_address(IPv6Address, host[1:-1]) and "%" not in host
    name = host.removesuffix(".")
    labels = name.split(".")
    # A name that ends with a number is an address to browsers, and to nobody else a name.
    if labels[-1].isdigit():
        return _is_address(IPv4Address, name)
    return (
        len(name) <= MAX_HOST_LENGTH
        and all(_LABEL.fullmatch(label) for label in labels)
        and _is_readable(labels)
    )


def _is_address(kind: type[IPv4Address | IPv6Address], text: str) -> bool:
    try:
        kind(text)
    except AddressValueError:
        return False
    return True


def _is_readable(labels: list[str]) -> bool:
    """Whether the internationalised labels (`xn--`) stand for something (RFC 5891 5.4)."""
    try:
        for label in labels:
            if label.startswith("xn--"):
                idna.decode(label)
    except idna.IDNAError:
        return False
    return True
