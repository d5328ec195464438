"""What this library does with URLs: check that one is fit for use, and extend its query."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from urllib.parse import SplitResult, urlencode, urlsplit

from fastapi_oidc.protocol.hosts import is_authority

MAX_URL_LENGTH = 2048


class URLFault(Enum):
    """Why a URL is refused."""

    MALFORMED = auto()
    INSECURE = auto()


def fault_of_url(url: object, *, allow_insecure_http: bool) -> URLFault | None:
    """None for an absolute https URL without user info and fragment (RFC 6749 3.1, 3.2).

    Its host is one that can be asked. With `allow_insecure_http` http is as good as https.
    """
    parts = _parts(url)
    if parts is None or parts.scheme not in ("http", "https"):
        return URLFault.MALFORMED
    if not is_authority(parts.netloc) or "#" in str(url):
        return URLFault.MALFORMED
    if parts.scheme == "http" and not allow_insecure_http:
        return URLFault.INSECURE
    return None


def with_query(url: str, parameters: Mapping[str, str]) -> str:
    """`url` with `parameters` added to the query it may already have (RFC 6749 3.1)."""
    separator = "" if url.endswith(("?", "&")) else "&" if "?" in url else "?"
    return f"{url}{separator}{urlencode(parameters)}"


def _parts(url: object) -> SplitResult | None:
    if not isinstance(url, str) or len(url) > MAX_URL_LENGTH:
        return None
    # urlsplit drops tabs and newlines, and backslashes mean a slash to browsers.
    if not url.isascii() or not url.isprintable() or any(odd in url for odd in ' \\"<>^`{|}'):
        return None
    try:
        return urlsplit(url)
    except ValueError:
        return None
