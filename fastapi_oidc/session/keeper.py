"""Where a session is kept between requests: what the flows rely on, whichever way it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Generic, NamedTuple, Protocol

from fastapi_oidc.session.cookies import CookieChange
from fastapi_oidc.session.endings import RevocationRecord
from fastapi_oidc.session.model import EndReason, Identity, OIDCSession, PreviousSession
from fastapi_oidc.session.reference import SessionReference


class Kept(NamedTuple, Generic[Identity]):
    """A session and, when it lives in a store, the reference that its cookie carries."""

    session: OIDCSession[Identity]
    reference: SessionReference | None = None


class Found(NamedTuple, Generic[Identity]):
    """A session that is kept; `ended` is the reason of a record that covers it."""

    kept: Kept[Identity]
    ended: EndReason | None = None


class Told(NamedTuple, Generic[Identity]):
    """What cookies say of a session by themselves: enough to end it; `kept` where it is in them."""

    previous: PreviousSession
    kept: Kept[Identity] | None = None


class Keeper(Protocol[Identity]):
    """Keeps sessions between requests; `CookieKeeper` and `StoreKeeper` are the two ways.

    What is async raises SessionError (session.store_unavailable, session.revocation_unavailable)
    when a store cannot be asked.
    """

    @property
    def keeps_endings(self) -> bool:
        """Whether the end of a single session is recorded: no copy of its cookie opens after it."""

    @property
    def keeps_use(self) -> bool:
        """Whether `touch` has an effect."""

    @property
    def lists_sessions(self) -> bool:
        """Whether `sessions_of` knows the sessions of a user."""

    async def read(self, cookies: Mapping[str, str]) -> Found[Identity] | None:
        """The session these cookies lead to; None for none, an unreadable or an unknown one."""

    def told(
        self, cookies: Mapping[str, str], issuer: str, client_id: str
    ) -> Told[Identity] | None:
        """What these cookies say without a store; None for none, and for those of 0.1.0 that name
        a row alone. `issuer` and `client_id` are those of a session that does not say them."""

    async def reread(self, kept: Kept[Identity]) -> Found[Identity] | None:
        """What is kept now in place of `kept`: another request may have refreshed or ended it."""

    def placed(self, session: OIDCSession[Identity]) -> Kept[Identity]:
        """A place that nobody knows yet, for the session of a new login."""

    async def save(self, kept: Kept[Identity]) -> None:
        """Keeps the session of a new login from now on."""

    async def replace(self, kept: Kept[Identity]) -> bool:
        """Keeps the session in place of its predecessor; False when that is kept no longer."""

    async def touch(self, kept: Kept[Identity], at: int) -> Kept[Identity]:
        """The session, last seen at `at` (seconds since the epoch); a refresh is not overwritten.

        Raises ConfigurationError (configuration.store_missing) when the store cannot keep it.
        """

    async def end(self, kept: Kept[Identity], reason: EndReason) -> None:
        """Keeps the session no longer, and records its end where endings are kept.

        When one of the two fails the other is done nevertheless, and the error raised afterwards.
        """

    def previous(self, kept: Kept[Identity]) -> PreviousSession:
        """What a login that replaces `kept` has to remember to end it."""

    async def end_previous(self, previous: PreviousSession, reason: EndReason) -> None:
        """As `end`, of the session that a login replaces."""

    async def revoke(self, record: RevocationRecord) -> None:
        """From now on every session that `record` covers is found with its reason.

        Raises ConfigurationError (configuration.store_missing) when nothing can keep the record.
        """

    async def sessions_of(
        self, issuer: str, client_id: str, sub: str
    ) -> Sequence[OIDCSession[Identity]]:
        """The living sessions of a user.

        Raises ConfigurationError (configuration.store_missing) when the store cannot list them.
        """

    def cookies(self, kept: Kept[Identity], now: int) -> tuple[CookieChange, ...]:
        """The cookies that lead to `kept`; raises CookieTooLarge."""

    def clearing(self) -> tuple[CookieChange, ...]:
        """The cookies to change so that none leads to a session."""

    async def aclose(self) -> None:
        """Closes the connections that the stores made for themselves."""
