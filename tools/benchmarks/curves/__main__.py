"""Draws the curves of docs/benchmarks anew: `tools.benchmarks.curves [--most N] [NAME...]`.

Each is measured in a process of its own, so that none pays for what another left in memory. Says
on stderr how far it is, prints the targets, and exits with 1 when one was missed.
"""

from __future__ import annotations

import sys

from tools.benchmarks.curves.command import main

if __name__ == "__main__":
    sys.exit(main())
