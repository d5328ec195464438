"""Machines call APIs with the rights of a person, and never hold their tokens."""

from fastapi_oidc.broker.broker import Broker
from fastapi_oidc.broker.limits import Limits, Refused
from fastapi_oidc.broker.route import Route
from fastapi_oidc.broker.rules import Access, Approval, Use
from fastapi_oidc.broker.trail import AccessEvent

__all__ = ["Access", "AccessEvent", "Approval", "Broker", "Limits", "Refused", "Route", "Use"]
