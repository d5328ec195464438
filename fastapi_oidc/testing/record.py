"""The record of a `DevProvider`'s events, for tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar, get_args


@dataclass(frozen=True, slots=True)
class AuthorizationRequested:
    """An authorization request was accepted; `pushed` if it was pushed (RFC 9126)."""

    client_id: str
    parameters: Mapping[str, str]
    pushed: bool = False


@dataclass(frozen=True, slots=True)
class SignedIn:
    """An authorization response with a code was sent for this user."""

    client_id: str
    sub: str
    sid: str


@dataclass(frozen=True, slots=True)
class TokensIssued:
    """The token endpoint returned tokens."""

    client_id: str
    sub: str
    grant_type: str
    parameters: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class UserInfoServed:
    """UserInfo was returned for an access token of this user."""

    client_id: str
    sub: str


@dataclass(frozen=True, slots=True)
class TokenIntrospected:
    """A client introspected a token (RFC 7662); `active` is the result."""

    client_id: str
    active: bool


@dataclass(frozen=True, slots=True)
class TokenRevoked:
    """A client revoked one of its tokens (RFC 7009)."""

    client_id: str
    token_type_hint: str | None


@dataclass(frozen=True, slots=True)
class SignedOut:
    """The user's session at the provider ended; `client_id` is the client that requested it."""

    sub: str
    client_id: str | None


@dataclass(frozen=True, slots=True)
class LogoutDelivered:
    """A logout token was posted; `status` is the client's HTTP status, None without a response."""

    client_id: str
    uri: str
    status: int | None


@dataclass(frozen=True, slots=True)
class Refused:
    """A request was refused with an OAuth error."""

    endpoint: str
    error: str
    description: str


Event: TypeAlias = (
    AuthorizationRequested
    | SignedIn
    | TokensIssued
    | UserInfoServed
    | TokenIntrospected
    | TokenRevoked
    | SignedOut
    | LogoutDelivered
    | Refused
)

EventType = TypeVar("EventType", bound=Event)


class Record:
    """All events in order, and the number of calls of each endpoint."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.calls: Counter[str] = Counter()

    def add(self, event: Event) -> None:
        """Append `event`."""
        self.events.append(event)

    def of(self, kind: type[EventType]) -> list[EventType]:
        """The events of one kind, oldest first; TypeError for what is no kind of event."""
        if kind not in get_args(Event):
            raise TypeError(f"of() takes a class of events, such as TokensIssued, not {kind!r}")
        return [event for event in self.events if isinstance(event, kind)]

    def clear(self) -> None:
        """Delete events and counts; sessions and tokens stay."""
        self.events.clear()
        self.calls.clear()
