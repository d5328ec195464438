"""Access tokens that the provider issued to this client, and when to replace them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Final, NoReturn, Self

from fastapi_oidc.errors import Code, SessionError
from fastapi_oidc.protocol.token import TokenResponse

MIN_VALIDITY: Final = 60
"""Seconds for which a token for an API must still be valid, by default."""


class NotText:
    """What has a token, and is no token: `f"Bearer {session.tokens}"` would send something else."""

    __slots__ = ()

    def __format__(self, _specification: str) -> NoReturn:
        """Raises TypeError."""
        raise TypeError(
            f"{type(self).__name__} is not the text of a token: give the client "
            "auth=oidc.auth(session), which sends the token"
        )


@dataclass(frozen=True, slots=True)
class IssuedToken(NotText):
    """An access token for an API (RFC 6749 5.1).

    `issued_at` and `expires_at` are in seconds since the epoch. If `expires_at` is None, the token
    is valid until an API refuses it. A token of the type "DPoP" must be sent with a proof by
    `dpop_key` (RFC 9449), as `oidc.auth` does.
    """

    value: str = field(repr=False)
    expires_at: int | None
    scope: tuple[str, ...]
    token_type: str
    issued_at: int
    dpop_key: str | None = field(default=None, repr=False)

    @classmethod
    def of(
        cls,
        response: TokenResponse,
        *,
        received_at: int,
        lifetime: int,
        scope: tuple[str, ...],
        dpop_key: str | None = None,
    ) -> Self:
        """The token in `response`; `lifetime` and `scope` are the defaults for absent members."""
        return cls(
            value=response.access_token,
            expires_at=received_at + (response.expires_in or lifetime),
            scope=scope if response.scope is None else response.scope,
            token_type=response.token_type,
            issued_at=received_at,
            dpop_key=dpop_key,
        )

    def encode(self) -> bytes:
        """The token with its value, to be sealed."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, encoded: bytes) -> Self:
        """Read the result of `encode`; raises SessionError (session.lock_unavailable)."""
        try:
            members = json.loads(encoded)
            return cls(**members | {"scope": tuple(members["scope"])})
        except (ValueError, TypeError, KeyError):
            explanation = "another release wrote the record of this token"
            raise SessionError(Code.SESSION_LOCK_UNAVAILABLE, explanation) from None


@dataclass(frozen=True, slots=True)
class Needed:
    """A caller's need: a token that is valid for `seconds` more and is not `refused`."""

    seconds: int = MIN_VALIDITY
    refused: str = field(default="", repr=False)

    def is_met_by(self, token: IssuedToken, now: int) -> bool:
        """Whether `token` need not be replaced.

        A token with a shorter lifetime than `seconds` is used for half of its lifetime, so that it
        is not replaced at every call.
        """
        if token.value == self.refused:
            return False
        if token.expires_at is None:
            return True
        life = token.expires_at - token.issued_at
        seconds = self.seconds if self.seconds < life else max(0, life // 2)
        return now + seconds < token.expires_at

    def is_served_by(self, token: IssuedToken, now: int) -> bool:
        """Whether `token` can be sent while no better one is available."""
        if token.value == self.refused:
            return False
        return token.expires_at is None or now < token.expires_at
