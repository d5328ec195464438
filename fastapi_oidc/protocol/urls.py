"""URLs of providers and applications, and paths to return to."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, TypeGuard
from urllib.parse import unquote, urlencode, urlsplit

import idna
from pydantic_core import Url

from fastapi_oidc.errors import Code, ConfigurationError

MAX_URL_LENGTH = 2048


# Browsers read backslashes as slashes, and parsers drop tabs and line breaks.
_ABSOLUTE: Final = re.compile(
    r"(https?)://([\w.-]+|\[[\da-f:.]+\])(:\d{0,5})?([/?].*)?", re.IGNORECASE | re.ASCII
)
_ODD: Final = re.compile(r'[^!-~]|[\\"<>^`{|}#]')


def fault_of_url(url: object, *, allow_insecure_http: bool) -> Code | None:
    """The fault of a URL, None for an absolute https URL without user info and fragment.

    Its host must be valid (RFC 6749 3.1, 3.2). With `allow_insecure_http`, http is accepted too.
    The fault is configuration.insecure_url for http, and configuration.invalid otherwise.
    """
    if not isinstance(url, str) or len(url) > MAX_URL_LENGTH or _ODD.search(url):
        return Code.CONFIGURATION_INVALID
    absolute = _ABSOLUTE.fullmatch(url)
    try:
        host = Url(url).host or ""
        if "xn--" in host:  # pydantic accepts names that IDNA 2008 and httpx do not
            idna.decode(host)
    except ValueError:
        absolute = None
    if absolute is None:
        return Code.CONFIGURATION_INVALID
    is_secure = absolute[1].lower() == "https" or allow_insecure_http
    return None if is_secure else Code.CONFIGURATION_INSECURE_URL


def require_url(url: str, meant: str, *, allow_insecure_http: bool) -> str:
    """`url`, if it has no fault; `meant` says what it must be.

    Raises ConfigurationError: configuration.insecure_url or configuration.invalid.
    """
    fault = fault_of_url(url, allow_insecure_http=allow_insecure_http)
    if fault is Code.CONFIGURATION_INSECURE_URL:
        meant = "must be https; allow_insecure_http permits http for local development"
    if fault is not None:
        raise ConfigurationError(fault, meant)
    return url


_LOOPBACK: Final = re.compile(r"localhost|.*\.localhost|127(\.\d{1,3}){3}|::1")


def is_this_machine(host: str) -> bool:
    """Whether a `Host` header names this machine."""
    name = re.sub(r":\d+$", "", host).strip("[]")
    return _LOOPBACK.fullmatch(name) is not None


def travels_unencrypted(url: str) -> bool:
    """Whether a request to `url` leaves this machine unencrypted."""
    parts = urlsplit(url)
    return parts.scheme == "http" and not _LOOPBACK.fullmatch(parts.hostname or "")


def written(members: Mapping[str, object]) -> dict[str, str]:
    """The members that have a value, as parameters; words are separated by spaces."""
    texts = {
        name: " ".join(value) if isinstance(value, tuple) else value
        for name, value in members.items()
    }
    return {name: str(text) for name, text in texts.items() if text not in (None, "")}


_WORD: Final = re.compile(r"[!#-\[\]-~]+")


def is_word(value: object) -> bool:
    """Whether `value` is one word of a scope (RFC 6749 3.3)."""
    return isinstance(value, str) and _WORD.fullmatch(value) is not None


def with_query(url: str, parameters: Mapping[str, str]) -> str:
    """`url` with `parameters` added to the query it may already have (RFC 6749 3.1)."""
    separator = "" if url.endswith(("?", "&")) else "&" if "?" in url else "?"
    return f"{url}{separator}{urlencode(parameters)}"


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
