"""An OpenID Provider for tests and demos. For development only: it needs no passwords."""

from fastapi_oidc.testing.direct import stored
from fastapi_oidc.testing.faults import AnswerLost, Delay, Drip, OAuthError, ServerError
from fastapi_oidc.testing.headless import sign_in, sign_in_sync
from fastapi_oidc.testing.overrides import session_for
from fastapi_oidc.testing.provider import DevProvider
from fastapi_oidc.testing.record import (
    AuthorizationRequested,
    LogoutDelivered,
    Refused,
    SignedIn,
    SignedOut,
    TokenIntrospected,
    TokenRevoked,
    TokensIssued,
    UserInfoServed,
)
from fastapi_oidc.testing.registration import DevClient, DevResource, DevUser
from fastapi_oidc.testing.state import Lifetimes

__all__ = [
    "AnswerLost",
    "AuthorizationRequested",
    "Delay",
    "DevClient",
    "DevProvider",
    "DevResource",
    "DevUser",
    "Drip",
    "Lifetimes",
    "LogoutDelivered",
    "OAuthError",
    "Refused",
    "ServerError",
    "SignedIn",
    "SignedOut",
    "TokenIntrospected",
    "TokenRevoked",
    "TokensIssued",
    "UserInfoServed",
    "session_for",
    "sign_in",
    "sign_in_sync",
    "stored",
]
