"""What is done once for many callers, and what is remembered for a while."""

from fastapi_oidc.once.cancelling import cancelled
from fastapi_oidc.once.closing import Closed, Closing
from fastapi_oidc.once.expiring import Expiring
from fastapi_oidc.once.flights import Flights
from fastapi_oidc.once.turns import Turns

__all__ = ["Closed", "Closing", "Expiring", "Flights", "Turns", "cancelled"]
