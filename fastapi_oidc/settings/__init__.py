"""The settings of one registration at a provider. They are validated when they are created."""

from fastapi_oidc.settings.environment import DEFAULT_NAME
from fastapi_oidc.settings.options import OIDCSettings
from fastapi_oidc.settings.rules import revealed

__all__ = ["DEFAULT_NAME", "OIDCSettings", "revealed"]
