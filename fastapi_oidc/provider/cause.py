"""Why an exchange failed, in the words of somebody who has to put it right."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator

import httpx

from fastapi_oidc.protocol.error_text import cleaned


def cause_of(error: BaseException) -> str:
    """The failure that lies below `error`, in one line: certificate, name, connection or time."""
    for below in _below(error):
        match below:
            case ssl.SSLCertVerificationError():
                said = cleaned(below.verify_message)
                return f"the certificate is not trusted: {said}; ca_file names other authorities"
            case ssl.SSLError():
                return f"TLS failed: {cleaned(str(getattr(below, 'reason', '')))}"
            case socket.gaierror():
                return f"the name is not found: {cleaned(below.strerror or '')}"
            case ConnectionRefusedError():
                return "the connection was refused"
            case ConnectionResetError() | BrokenPipeError():
                return "the connection was reset"
    return _by_kind(error)


def _by_kind(error: BaseException) -> str:
    match error:
        case httpx.ConnectTimeout():
            return "no connection in time"
        case httpx.PoolTimeout():
            return "no free connection in time"
        case httpx.ProxyError():
            return f"the proxy failed: {cleaned(str(error))}"
        case httpx.RemoteProtocolError():
            return f"no complete HTTP answer: {cleaned(str(error))}"
        case httpx.InvalidURL() | UnicodeError():
            return "the URL cannot be asked"
    return type(error).__name__


def _below(error: BaseException) -> Iterator[BaseException]:
    """`error` and what caused it, downwards."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        current = waiting.pop(0)
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        waiting += [current.__cause__, current.__context__]
        if isinstance(current, BaseExceptionGroup):
            waiting += current.exceptions
