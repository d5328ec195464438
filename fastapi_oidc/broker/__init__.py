"""Machines call APIs with the rights of a person, and never hold their tokens."""

from fastapi_oidc.broker.access import Access, AccessEvent, Approval, Limits, Refused, Use
from fastapi_oidc.broker.broker import Broker
from fastapi_oidc.broker.route import Route

__all__ = ["Access", "AccessEvent", "Approval", "Broker", "Limits", "Refused", "Route", "Use"]
