"""A monitor to test against: `SimulatedMonitor` on a unix socket, and `python -m` for the same."""

from .faults import Faults
from .guest import SimulatedGuest
from .monitor import ReceivedCall, SimulatedMonitor

__all__ = ["Faults", "ReceivedCall", "SimulatedGuest", "SimulatedMonitor"]
