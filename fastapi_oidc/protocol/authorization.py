"""The authorization request and its response (OpenID Connect Core 3.1.2, RFC 6749 4.1)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self, TypeAlias

from fastapi_oidc.errors import Code, ProtocolViolation, ProviderError, misconfigured
from fastapi_oidc.protocol.encoding import encode_base64url, is_same
from fastapi_oidc.protocol.refusal import cleaned, shown
from fastapi_oidc.protocol.urls import written

Parameters: TypeAlias = Mapping[str, Sequence[str]]
"""The parameters of a query or form: all values of each name."""

MAX_PARAMETER_LENGTH = 4096

PROTECTED_PARAMETERS = frozenset(
    {
        "client_id",
        "client_secret",
        "code_challenge",
        "code_challenge_method",
        "id_token_hint",
        "max_age",
        "nonce",
        "redirect_uri",
        "request",
        "request_uri",
        "response_mode",
        "response_type",
        "scope",
        "state",
    }
)
"""Parameters that `extra_params` must not set, because checks of the response rely on them."""

_RESPONSE_PARAMETERS = ("code", "error", "error_description", "iss", "session_state")
_VISIBLE_ASCII = re.compile(r"[ -~]+")
_REQUEST_URI = re.compile(rf"[!-~]{{1,{MAX_PARAMETER_LENGTH}}}")
_CODE_VERIFIER = re.compile(r"[A-Za-z0-9\-._~]{43,128}")


def require_unprotected(extra_params: Iterable[str]) -> None:
    """Raise ConfigurationError (configuration.protected_parameter) when a name is protected."""
    if taken := sorted(PROTECTED_PARAMETERS.intersection(extra_params)):
        explanation = f"extra_params cannot set {', '.join(taken)}"
        raise misconfigured(explanation, Code.CONFIGURATION_PROTECTED_PARAMETER)


def with_openid(scope: Iterable[str]) -> tuple[str, ...]:
    """The scope with `openid`, each value once (Core 3.1.2.1)."""
    return tuple(dict.fromkeys(("openid", *scope)))


def authorization_parameters(extra_params: Mapping[str, str], **own: object) -> dict[str, str]:
    """The parameters of a request for a code with PKCE (Core 3.1.2.1, RFC 7636 4.3).

    Of `own`, those that have a value are sent. Raises ConfigurationError for a protected one among
    `extra_params`, which never replace another one.
    """
    require_unprotected(extra_params)
    fixed = {"response_type": "code", "code_challenge_method": "S256"}
    return {**extra_params, **written(own), **fixed}


def pushed_request_uri(document: object) -> str:
    """The `request_uri` of a pushed authorization response (RFC 9126 2.2).

    Raises ProviderError (provider.answer_malformed).
    """
    request_uri = document.get("request_uri") if isinstance(document, dict) else None
    if not isinstance(request_uri, str) or not _REQUEST_URI.fullmatch(request_uri):
        explanation = "the pushed authorization response has no request_uri"
        raise ProviderError(Code.PROVIDER_ANSWER_MALFORMED, explanation)
    return request_uri


class AuthorizationRefused(ProtocolViolation):
    """The OP returned an error (Core 3.1.2.6). Both texts are escaped and cut."""

    def __init__(self, error: str, error_description: str) -> None:
        self.error = cleaned(error)
        self.error_description = cleaned(error_description)
        said = f"{self.error} ({self.error_description or 'nothing more'})"
        explanation = f"the provider returned {said}"
        super().__init__(Code.AUTHORIZATION_REFUSED, explanation, error=self.error)


@dataclass(frozen=True, slots=True)
class AuthorizationCode:
    """A code whose `state` and `iss` were checked. Only `parse` makes one."""

    value: str = field(repr=False)
    session_state: str | None = None

    @classmethod
    def parse(
        cls, parameters: Parameters, *, state: str, issuer: str, issuer_promised: bool
    ) -> Self:
        """Read the response to the request that was sent to `issuer` with `state`.

        `state` (RFC 6749 10.12) and `iss` (RFC 9207 2.4) are checked before an error or a code is
        read (RFC 6749 4.1.2). Raises ProtocolViolation (authorization.*), and AuthorizationRefused
        when the OP refused.
        """
        answer = {name: _single(parameters, name) for name in _RESPONSE_PARAMETERS}
        if not is_same(response_state(parameters), state):
            raise ProtocolViolation(Code.AUTHORIZATION_STATE_MISMATCH)
        _require_issuer(answer["iss"], issuer, issuer_promised=issuer_promised)
        if answer["error"] is not None:
            raise AuthorizationRefused(answer["error"], answer["error_description"] or "")
        return cls(_require_code(answer["code"]), _session_state(answer["session_state"]))


def response_state(parameters: Parameters) -> str:
    """The `state`, which names the pending login. The response is not checked yet."""
    state = _single(parameters, "state")
    if not state:
        raise ProtocolViolation(Code.AUTHORIZATION_STATE_MISSING)
    return state


def _single(parameters: Parameters, name: str) -> str | None:
    """The only value of a parameter; repeated parameters are refused (RFC 6749 3.1)."""
    values = parameters.get(name, ())
    if len(values) > 1:
        raise ProtocolViolation(Code.AUTHORIZATION_PARAMETER_REPEATED, f"{name} is repeated")
    if values and len(values[0]) > MAX_PARAMETER_LENGTH:
        raise ProtocolViolation(Code.AUTHORIZATION_PARAMETER_TOO_LONG, f"{name} is too long")
    return values[0] if values else None


def _require_issuer(answered: str | None, issuer: str, *, issuer_promised: bool) -> None:
    """Check `iss` (RFC 9207 2.4), even if the metadata does not announce it."""
    if answered is None and issuer_promised:
        raise ProtocolViolation(Code.AUTHORIZATION_ISSUER_MISSING)
    if answered is not None and answered != issuer:
        explanation = f"iss is {shown(answered)}, the configured issuer {shown(issuer)}"
        raise ProtocolViolation(Code.AUTHORIZATION_ISSUER_MISMATCH, explanation)


def _require_code(code: str | None) -> str:
    if not code:
        raise ProtocolViolation(Code.AUTHORIZATION_CODE_MISSING)
    if not _VISIBLE_ASCII.fullmatch(code):  # RFC 6749 A.11
        raise ProtocolViolation(Code.AUTHORIZATION_MALFORMED, "the code is not printable ASCII")
    return code


def _session_state(value: str | None) -> str | None:
    """The `session_state`: opaque, without spaces (Session Management 2). None if unusable."""
    if value and _VISIBLE_ASCII.fullmatch(value) and " " not in value:
        return value
    return None


def code_challenge(code_verifier: str) -> str:
    """The S256 challenge of a verifier, the only method in use (RFC 7636 4.2).

    Raises ValueError when the verifier is not 43 to 128 unreserved characters (4.1).
    """
    if not _CODE_VERIFIER.fullmatch(code_verifier):
        raise ValueError("a code_verifier has 43 to 128 unreserved characters (RFC 7636 4.1)")
    return encode_base64url(hashlib.sha256(code_verifier.encode("ascii")).digest())
