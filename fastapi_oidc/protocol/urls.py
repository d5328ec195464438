"""URLs of providers and applications, and paths to return to."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum, auto
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Final, TypeGuard
from urllib.parse import SplitResult, unquote, urlencode, urlsplit

import idna

MAX_URL_LENGTH = 2048


class URLFault(Enum):
    """Why a URL is refused."""

    MALFORMED = auto()
    INSECURE = auto()


def fault_of_url(url: object, *, allow_insecure_http: bool) -> URLFault | None:
    """The fault of a URL, None for an absolute https URL without user info and fragment.

    Its host must be valid (RFC 6749 3.1, 3.2). With `allow_insecure_http`, http is accepted too.
    """
    parts = _parts(url)
    if parts is None or parts.scheme not in ("http", "https"):
        return URLFault.MALFORMED
    if not is_authority(parts.netloc) or "#" in str(url):
        return URLFault.MALFORMED
    if parts.scheme == "http" and not allow_insecure_http:
        return URLFault.INSECURE
    return None


_LOOPBACK: Final = re.compile(r"localhost|.*\.localhost|127(\.\d{1,3}){3}|::1")


def travels_unencrypted(url: str) -> bool:
    """Whether a request to `url` leaves this machine unencrypted."""
    parts = urlsplit(url)
    return parts.scheme == "http" and not _LOOPBACK.fullmatch(parts.hostname or "")


def with_query(url: str, parameters: Mapping[str, str]) -> str:
    """`url` with `parameters` added to the query it may already have (RFC 6749 3.1)."""
    separator = "" if url.endswith(("?", "&")) else "&" if "?" in url else "?"
    return f"{url}{separator}{urlencode(parameters)}"


def _parts(url: object) -> SplitResult | None:
    if not isinstance(url, str) or len(url) > MAX_URL_LENGTH:
        return None
    # urlsplit drops tabs and newlines, and browsers read backslashes as slashes.
    if not url.isascii() or not url.isprintable() or any(odd in url for odd in ' \\"<>^`{|}'):
        return None
    try:
        return urlsplit(url)
    except ValueError:
        return None


MAX_HOST_LENGTH: Final = 253
"""Maximum length, in characters, of a DNS name (RFC 1035 2.3.4)."""

_AUTHORITY: Final = re.compile(r"(?P<host>\[[^\]]*\]|[^:\[\]]+)(?::(?P<port>[0-9]{0,5}))?")
_LABEL: Final = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")


def is_authority(text: str) -> bool:
    """Whether `text` is a valid host with an optional port and without user information."""
    parts = _AUTHORITY.fullmatch(text)
    return (
        parts is not None and int(parts["port"] or 0) <= 65535 and _is_host(parts["host"].lower())
    )


def _is_host(host: str) -> bool:
    if host.startswith("["):
        return _is_address(IPv6Address, host[1:-1]) and "%" not in host
    name = host.removesuffix(".")
    labels = name.split(".")
    # Browsers read a name that ends with a number as an address; it is not a valid name.
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
    """Whether the internationalized labels (`xn--`) can be decoded (RFC 5891 5.4)."""
    try:
        for label in labels:
            if label.startswith("xn--"):
                idna.decode(label)
    except idna.IDNAError:
        return False
    return True


MAX_RETURN_PATH_LENGTH = 1000

_PRINTABLE_WITHOUT_BACKSLASH = re.compile(r"/[!-\[\]-~]*")
_ENCODED_CONTROL = re.compile(r"%(?:[01][0-9a-f]|7f)", re.IGNORECASE)


def same_origin_path(value: object, *, default: str, origin: str | None = None) -> str:
    """`value` if it is a path of this origin, otherwise `default` (RFC 9700 4.11.1).

    It may begin with `origin`, as URLs of the application do that it has made itself.
    """
    path = value.removeprefix(origin) if isinstance(value, str) and origin else value
    return path if is_same_origin_path(path) else default


def is_same_origin_path(value: object) -> TypeGuard[str]:
    """Whether every browser and server reads `value` as a path of its own origin.

    Percent-encoded ASCII that begins with one slash, at most 1000 characters, without
    backslashes, control characters (encoded ones neither), empty or dot segments.
    """
    if not isinstance(value, str) or len(value) > MAX_RETURN_PATH_LENGTH:
        return False
    if not _PRINTABLE_WITHOUT_BACKSLASH.fullmatch(value) or _ENCODED_CONTROL.search(value):
        return False
    path = re.split("[?#]", value)[0]
    *inner, last = (unquote(segment) for segment in path.split("/")[1:])
    return "" not in inner and not any(_misleads(segment) for segment in (*inner, last))


def _misleads(segment: str) -> bool:
    return segment in (".", "..") or "/" in segment or "\\" in segment
