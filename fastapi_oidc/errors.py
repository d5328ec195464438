"""The errors of this library. The class says who must act; the stable code says what happened.

OIDCError
 +-- ConfigurationError    the developer or operator of this application
 +-- ProviderError         the operator of the OpenID Provider, or the network between
 +-- ProtocolViolation     nobody: a message broke the protocol and was refused
 +-- SessionError          the user: sign in (again), or a store the session needs is down
"""

from __future__ import annotations

from http import HTTPStatus
from inspect import Parameter, Signature
from typing import Annotated, Any, NoReturn, cast

from fastapi_oidc.codes import ANSWERS
from fastapi_oidc.codes import Code as Code


class OIDCError(Exception):
    """Base class of every error of this library.

    `code` is stable. `explanation` and `details` are for the log: they never contain a token,
    secret, cookie or authorization code, and they are never sent to a browser. `instance` is the
    name of the OIDC instance whose guard or route raised the error, None outside of a request.
    """

    def __init__(self, code: Code, explanation: str = "", **details: object) -> None:
        super().__init__(f"{code}: {explanation}" if explanation else str(code))
        self.code = Code(code)
        self.answer = ANSWERS[self.code]
        """What a browser or program may see."""
        self.explanation = explanation
        self.details = details
        self.is_announced = False
        """Whether an event has reported this error: one refusal is one line in the log."""
        self.instance: str | None = None

    @property
    def message(self) -> str:
        """Explanation and details on one line, for the log."""
        details = ", ".join(f"{name}={value}" for name, value in self.details.items())
        return " ".join(text for text in (self.explanation, details and f"({details})") if text)

    @property
    def status(self) -> HTTPStatus:
        """The HTTP status of the response to a request that failed with this error."""
        return self.answer.status

    @property
    def public_text(self) -> str:
        """The sentence that a browser may see."""
        return self.answer.text


class ConfigurationError(OIDCError):
    """The application is set up wrongly; its developer or operator must act.

    It is no ValueError: pydantic would tell of it beside the values of an application's own model,
    which are secrets. `faults` has one line for each fault.
    """

    @property
    def faults(self) -> tuple[str, ...]:
        """One line for each fault; it names the setting or argument to change."""
        return cast("tuple[str, ...]", self.details.get("faults", (self.explanation,)))


def misconfigured(explanation: str, code: Code = Code.CONFIGURATION_INVALID) -> ConfigurationError:
    """The error of an application whose developer must act."""
    return ConfigurationError(code, explanation)


class Refused:
    """In the annotation of a parameter, what FastAPI must not read from a request.

    An endpoint with it raises ConfigurationError (configuration.invalid) when its route is defined.
    """

    def __init__(self, explanation: str) -> None:
        self._explanation = explanation

    def __get_pydantic_core_schema__(self, _source: Any, _handler: Any, /) -> NoReturn:
        """Raises ConfigurationError: FastAPI asks how to read the parameter."""
        raise misconfigured(self._explanation)


def refused_signature(explanation: str) -> Signature:
    """The signature of a class that is no dependency: FastAPI reads a class's parameters there."""
    annotation = Annotated[None, Refused(explanation)]
    return Signature([Parameter("refused", Parameter.KEYWORD_ONLY, annotation=annotation)])


class ProviderError(OIDCError):
    """The OpenID Provider, or the network to it, failed. A later attempt may succeed.

    `is_unsent`: no connection was made, so the provider has not received the request.
    """

    is_unsent = False


class ProtocolViolation(OIDCError):
    """A message broke a rule of the protocol and was refused.

    `is_early`: the message's time is ahead of this clock. The message may be valid later.
    """

    is_early = False


class SessionError(OIDCError):
    """There is no usable session for this request."""

    @property
    def is_outage(self) -> bool:
        """Whether the session's state is unknown because a service is down or busy: try again."""
        return self.status is HTTPStatus.SERVICE_UNAVAILABLE
