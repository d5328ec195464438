"""Access tokens of requests: strict parsing, and the refusals (RFC 6750, RFC 9449, RFC 9728)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from starlette.requests import HTTPConnection

from fastapi_oidc.codes import ANSWERS, PublicAnswer
from fastapi_oidc.errors import Code, OIDCError, ProtocolViolation
from fastapi_oidc.protocol.access_token import challenge
from fastapi_oidc.protocol.dpop import PROOF_ALGORITHMS, Scheme
from fastapi_oidc.resource_server.server import PresentedToken
from fastapi_oidc.resource_server.token import Permission
from fastapi_oidc.web.context import RequestContext
from fastapi_oidc.web.requests import requested_path, token_scheme_in

_UNDECIDED: Final = PublicAnswer(
    HTTPStatus.SERVICE_UNAVAILABLE, "Access tokens cannot be checked right now. Try again shortly."
)
_B64TOKEN: Final = re.compile(r"[A-Za-z0-9\-._~+/]+=*")


class AccessTokenError(OIDCError):
    """The request has no access token that is sufficient.

    `status` is 401, 403 or 400. It is 503 while tokens cannot be checked because the provider or a
    store does not respond. `challenge` is the `WWW-Authenticate` header, empty with 503.
    """

    def __init__(self, cause: OIDCError, challenge: str = "") -> None:
        super().__init__(cause.code, cause.explanation, **cause.details)
        self._is_decided = isinstance(cause, ProtocolViolation)
        self.challenge = challenge if self._is_decided else ""

    @property
    def status(self) -> HTTPStatus:
        """The HTTP status of the response."""
        return self._answer.status

    @property
    def public_text(self) -> str:
        """The sentence that the client may see."""
        return self._answer.text

    @property
    def _answer(self) -> PublicAnswer:
        if not self._is_decided:
            return _UNDECIDED
        # Other codes are those of logins.
        is_own = self.code.startswith(("access_token.", "dpop."))
        return ANSWERS[self.code if is_own else Code.ACCESS_TOKEN_KIND]


@dataclass(frozen=True, slots=True)
class Challenger:
    """Writes the challenges of one API; `resource_metadata` is the URL of RFC 9728 3."""

    realm: str
    resource_metadata: str | None
    dpop_required: bool = False

    def refusal(
        self, cause: OIDCError, scheme: Scheme | None, needed: Permission
    ) -> AccessTokenError:
        """The error for `cause` at an endpoint that needs this permission.

        It never quotes the token. `scheme` is that of the request, None without a token.
        """
        if cause.code is Code.ACCESS_TOKEN_ROLE:
            # No token of this user would have the role, so there is nothing to request.
            return AccessTokenError(cause)
        members = _error_of(cause)
        if needed.scopes:
            members["scope"] = " ".join(needed.scopes)
        if needed.step_up is not None:
            members |= needed.step_up.parameters()
        if cause.code is Code.ACCESS_TOKEN_BINDING:
            scheme = "DPoP"
        return AccessTokenError(cause, self._challenges(scheme, members))

    def invitation(self) -> str:
        """The challenge for a request with neither a session nor a token."""
        return self._challenges(None, {})

    def _challenges(self, scheme: Scheme | None, members: dict[str, str]) -> str:
        """The challenge for `scheme`, or for each scheme that the API accepts (RFC 9449 7.1)."""
        algorithms = {"algs": " ".join(PROOF_ALGORITHMS)}
        if scheme == "DPoP" or self.dpop_required:
            return self._challenge("DPoP", members | algorithms)
        bearer = self._challenge("Bearer", members)
        return bearer if "error" in members else f"{bearer}, {challenge('DPoP', algorithms)}"

    def _challenge(self, scheme: Scheme, members: dict[str, str]) -> str:
        members = {"realm": self.realm} | members
        if self.resource_metadata is not None:
            members["resource_metadata"] = self.resource_metadata
        return challenge(scheme, members)


def _error_of(cause: OIDCError) -> dict[str, str]:
    """The error members of RFC 6750 3.1 and RFC 9470 3; none for a request without a token."""
    if cause.code is Code.ACCESS_TOKEN_REQUIRED:
        return {}
    names = {
        Code.ACCESS_TOKEN_REQUEST: "invalid_request",
        Code.ACCESS_TOKEN_SCOPE: "insufficient_scope",
        Code.ACCESS_TOKEN_STEP_UP_REQUIRED: "insufficient_user_authentication",
    }
    other = "invalid_dpop_proof" if cause.code.startswith("dpop.") else "invalid_token"
    return {
        "error": names.get(cause.code, other),
        "error_description": AccessTokenError(cause).public_text,
    }


def presented_token(
    context: RequestContext, connection: HTTPConnection, certificate_header: str | None
) -> PresentedToken:
    """The token in the Authorization header; tokens elsewhere in the request are ignored.

    Raises ProtocolViolation: access_token.required without a token, access_token.request for
    several or a malformed one.
    """
    scheme = token_scheme_in(connection.scope["headers"])
    lines = connection.headers.getlist("authorization")
    if scheme is None:
        if any(line and " " not in line for line in lines):
            explanation = "the Authorization header has no scheme: Authorization: Bearer TOKEN"
            raise ProtocolViolation(Code.ACCESS_TOKEN_REQUEST, explanation)
        if "access_token" in connection.query_params:
            explanation = "a token in the query is not read (RFC 9700 4.3.2): send it as a header"
            raise ProtocolViolation(Code.ACCESS_TOKEN_REQUEST, explanation)
        raise ProtocolViolation(Code.ACCESS_TOKEN_REQUIRED, "no access token")
    if len(lines) > 1:
        raise ProtocolViolation(Code.ACCESS_TOKEN_REQUEST, "several Authorization headers")
    value = lines[0].partition(" ")[2].strip(" ")
    if not _B64TOKEN.fullmatch(value):
        raise ProtocolViolation(Code.ACCESS_TOKEN_REQUEST, f"the scheme {scheme} without a token")
    certificates = connection.headers.getlist(certificate_header) if certificate_header else []
    return PresentedToken(
        scheme=scheme,
        value=value,
        method=connection.scope.get("method", "GET"),
        # Behind a front server only base_url has the host of the request's URL.
        url=context.origin + requested_path(connection) if scheme == "DPoP" else "",
        proofs=connection.headers.getlist("dpop"),
        certificate=certificates[0] if len(certificates) == 1 else None,
    )
