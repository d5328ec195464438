"""Everything that is measured, and one table of targets: `python -m benchmarks`.

The monitor is that of FIRECRACKER_BIN, else a process with one fixed answer. Exits with 1 when a
target was missed, and says which.
"""

from __future__ import annotations

import os
import sys

from benchmarks.machine import show_machine
from benchmarks.oidc import oidc_targets
from benchmarks.targets import report
from benchmarks.vmm import vmm_targets


def main() -> int:
    """Measures everything and prints it; the exit status."""
    show_machine()
    binary = os.environ.get("FIRECRACKER_BIN", "")
    return report([*vmm_targets(binary), *oidc_targets()])


if __name__ == "__main__":
    sys.exit(main())
