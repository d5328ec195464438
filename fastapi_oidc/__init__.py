"""Sign people in to FastAPI apps with any OpenID Provider, and keep the session."""

from importlib.metadata import version as _version

from fastapi_oidc import installation as _installation
from fastapi_oidc.clock import Clock
from fastapi_oidc.errors import (
    Code,
    ConfigurationError,
    OIDCError,
    ProtocolViolation,
    ProviderError,
    SessionError,
)
from fastapi_oidc.events import Event, EventName
from fastapi_oidc.flows.callback import SignedIn
from fastapi_oidc.flows.login import LoginOptions
from fastapi_oidc.flows.logout import LogoutOptions
from fastapi_oidc.flows.relying_party import IdentityContext, PersistContext
from fastapi_oidc.grants import Grant
from fastapi_oidc.oidc import OIDC, StandaloneAPI
from fastapi_oidc.protocol.authorization import AuthorizationRefused
from fastapi_oidc.protocol.downstream import DownstreamAPI, IssuedToken
from fastapi_oidc.protocol.metadata import ProviderMetadata
from fastapi_oidc.provider.network import HTTPOptions
from fastapi_oidc.resource_server.server import AccessToken, Caller
from fastapi_oidc.session.model import (
    EndReason,
    OIDCSession,
    PublicSession,
    StandardIdentity,
    Tokens,
)
from fastapi_oidc.session.own_store import RefreshLock, SealedSession, SessionStore
from fastapi_oidc.session.session_cookie import CookieTooLarge
from fastapi_oidc.session.store import MemoryStore, Store
from fastapi_oidc.settings import OIDCSettings
from fastapi_oidc.web.access_tokens import AccessTokenError
from fastapi_oidc.web.api import API
from fastapi_oidc.web.guards import oidc_locals, require_auth, require_csrf
from fastapi_oidc.web.middleware import OIDCMiddleware
from fastapi_oidc.web.pages import Page
from fastapi_oidc.web.runtime import OIDCLocals, PublicSessionContext, RequestDataContext
from fastapi_oidc.web.sessions import SessionManagementConfig

if _installation.is_mixed():
    raise ImportError(_installation.REMEDY)

__version__ = _version("fastapi-oidc-vmm")

__all__ = [
    "API",
    "OIDC",
    "AccessToken",
    "AccessTokenError",
    "AuthorizationRefused",
    "Caller",
    "Clock",
    "Code",
    "ConfigurationError",
    "CookieTooLarge",
    "DownstreamAPI",
    "EndReason",
    "Event",
    "EventName",
    "Grant",
    "HTTPOptions",
    "IdentityContext",
    "IssuedToken",
    "LoginOptions",
    "LogoutOptions",
    "MemoryStore",
    "OIDCError",
    "OIDCLocals",
    "OIDCMiddleware",
    "OIDCSession",
    "OIDCSettings",
    "Page",
    "PersistContext",
    "ProtocolViolation",
    "ProviderError",
    "ProviderMetadata",
    "PublicSession",
    "PublicSessionContext",
    "RefreshLock",
    "RequestDataContext",
    "SealedSession",
    "SessionError",
    "SessionManagementConfig",
    "SessionStore",
    "SignedIn",
    "StandaloneAPI",
    "StandardIdentity",
    "Store",
    "Tokens",
    "oidc_locals",
    "require_auth",
    "require_csrf",
]
