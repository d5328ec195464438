"""Every error of this library: its class says who must act, its stable code what happened.

OIDCError
 +-- ConfigurationError    the developer or operator of this application
 +-- ProviderError         the operator of the OpenID Provider, or the network between
 +-- ProtocolViolation     nobody: a message broke the protocol and was refused
 +-- SessionError          the user: sign in (again), or a store the session needs is down
"""

from __future__ import annotations

from http import HTTPStatus
from typing import cast

from fastapi_oidc.codes import ANSWERS, Code

__all__ = [
    "Code",
    "ConfigurationError",
    "OIDCError",
    "ProtocolViolation",
    "ProviderError",
    "SessionError",
]


class OIDCError(Exception):
    """Base of every error raised here.

    `code` is stable. `explanation` and `details` are for the log: they never hold a token, secret,
    cookie or authorization code, and they never reach a browser. `instance` is the name of the OIDC
    instance whose guard or route raised it; None for what happens outside of a request.
    """

    def __init__(self, code: Code, explanation: str = "", **details: object) -> None:
        super().__init__(f"{code}: {explanation}" if explanation else str(code))
        self.code = code
        self.explanation = explanation
        self.details = details
        self.is_announced = False
        """Whether an event tells of it: one refusal is one line in the log."""
        self.instance: str | None = None

    @property
    def message(self) -> str:
        """Explanation and details on one line, for the log."""
        details = ", ".join(f"{name}={value}" for name, value in self.details.items())
        return " ".join(text for text in (self.explanation, details and f"({details})") if text)

    @property
    def status(self) -> HTTPStatus:
        """The HTTP status that answers a request which failed with this error."""
        return ANSWERS[self.code].status

    @property
    def public_text(self) -> str:
        """The sentence that a browser may see."""
        return ANSWERS[self.code].text


class ConfigurationError(OIDCError):
    """The application is set up wrongly; its developer or operator must act.

    `faults` has a line for each thing that is wrong.
    """

    @property
    def faults(self) -> tuple[str, ...]:
        """One line for each fault, each of which names what to change."""
        return cast("tuple[str, ...]", self.details.get("faults", (self.explanation,)))


class ProviderError(OIDCError):
    """The OpenID Provider, or the network to it, failed; trying again later may help.

    `is_unsent`: there was no connection, so that the provider has not seen the request.
    """

    is_unsent = False


class ProtocolViolation(OIDCError):
    """A message broke a rule of the protocol and was refused.

    `is_early`: it is dated after this clock's time, and may be right when that has come.
    """

    is_early = False


class SessionError(OIDCError):
    """There is no usable session for this request."""

    @property
    def is_outage(self) -> bool:
        """Whether nothing was decided of the session: something is down or busy, try again."""
        return self.status is HTTPStatus.SERVICE_UNAVAILABLE
