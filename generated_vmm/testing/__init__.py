"""A monitor to test against: `SimulatedMonitor` on a unix socket, and `python -m` for the same."""

from generated_vmm.testing.description import Description
from generated_vmm.testing.guest import SimulatedGuest
from generated_vmm.testing.monitor import ReceivedCall, SimulatedMonitor
from generated_vmm.testing.server import Faults

__all__ = ["Description", "Faults", "ReceivedCall", "SimulatedGuest", "SimulatedMonitor"]
