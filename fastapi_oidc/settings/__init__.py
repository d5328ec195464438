"""The options of one OIDC instance, checked when they are made."""

from fastapi_oidc.settings.options import OIDCSettings
from fastapi_oidc.settings.texts import revealed

__all__ = ["OIDCSettings", "revealed"]
