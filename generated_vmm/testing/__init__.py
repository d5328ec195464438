"""A monitor for tests: `SimulatedMonitor`, or `python -m generated_vmm.testing`."""

from generated_vmm.testing.description import Description
from generated_vmm.testing.guest import SimulatedGuest
from generated_vmm.testing.monitor import ReceivedCall, SimulatedMonitor
from generated_vmm.testing.server import Faults

__all__ = ["Description", "Faults", "ReceivedCall", "SimulatedGuest", "SimulatedMonitor"]
