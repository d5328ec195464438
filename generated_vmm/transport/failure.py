"""A call that got no answer: why, and what that means for the monitor and for the next call."""

from __future__ import annotations

from generated_vmm.errors import (
    VmmConnectionError,
    VmmError,
    VmmProtocolError,
    VmmTimeoutError,
    shorten,
)


class CallFailed(Exception):
    """Why there is no answer, where it is not known which call it was; never leaves the client.

    `kind` is the error that the caller gets, `sent` whether the monitor may have seen the request,
    `permanent` whether no later call can do better.
    """

    def __init__(
        self, kind: type[VmmError], reason: object, *, sent: bool, permanent: bool = False
    ) -> None:
        self.kind = kind
        self.reason = shorten(str(reason)) or type(reason).__name__
        self.sent = sent
        self.permanent = permanent
        super().__init__(self.reason)


def late(reason: object, *, sent: bool) -> CallFailed:
    """The time is up."""
    return CallFailed(VmmTimeoutError, reason, sent=sent)


def unreachable(reason: object, *, permanent: bool = False) -> CallFailed:
    """There is no connection, so nothing was sent."""
    return CallFailed(VmmConnectionError, reason, sent=False, permanent=permanent)


def closed() -> CallFailed:
    """The client was closed before the call."""
    return unreachable("the client is closed", permanent=True)


def lost(reason: object) -> CallFailed:
    """The connection ended before the answer was whole."""
    return CallFailed(VmmConnectionError, reason, sent=True)


def unreadable(reason: object) -> CallFailed:
    """What came is no answer that a monitor gives."""
    return CallFailed(VmmProtocolError, reason, sent=True)
