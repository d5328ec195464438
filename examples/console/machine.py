"""A machine's state and definition, read at one moment."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from generated_vmm import FullVmConfiguration, VmmError
from generated_vmm.machines import Definition

NOT_STARTED: Final = "Not started"
RUNNING: Final = "Running"
PAUSED: Final = "Paused"
STARTING: Final = "Starting"
ENDED: Final = "Ended"
BUSY: Final = "Busy"
NO_ANSWER: Final = "No answer"
"""The states of a machine."""
STARTED: Final = frozenset({RUNNING, PAUSED})


@dataclass(frozen=True, slots=True)
class Machine:
    """State and definition; `fault` is why the monitor did not respond.

    `version` is the release of the monitor, while it runs.
    """

    state: str
    definition: Definition = field(default_factory=Definition)
    fault: VmmError | None = None
    version: str = ""

    @property
    def configuration(self) -> FullVmConfiguration:
        """The machine's devices."""
        return self.definition.configuration

    @property
    def is_started(self) -> bool:
        """Whether the guest runs or is paused."""
        return self.state in STARTED

    @property
    def memory_mib(self) -> int:
        """The guest's memory in MiB."""
        configured = self.configuration.machine_config
        return configured.mem_size_mib if configured else 0

    @property
    def has_statistics(self) -> bool:
        """Whether the balloon reports the guest's use of memory."""
        balloon = self.configuration.balloon
        return self.is_started and balloon is not None and bool(balloon.stats_polling_interval_s)
