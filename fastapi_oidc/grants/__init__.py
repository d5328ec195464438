"""Access tokens for APIs: of sessions, of sessions for another API, and of the application."""

from fastapi_oidc.grants.auth import TokenAuth, auth_of
from fastapi_oidc.grants.grants import Actor, Detached, Grant, Grants, Holder

__all__ = ["Actor", "Detached", "Grant", "Grants", "Holder", "TokenAuth", "auth_of"]
