"""`make real`: how far the simulated monitor agrees with a real one on random calls."""

import argparse
import os
import sys

from tests.vmm.real.agreement import Gap, Tally, walk_at_random
from tests.vmm.real.calls import Drawn
from tests.vmm.real.monitors import Programs

GOALS = {"statuses": 99.9, "configurations": 99.9, "first words": 0.0}


def main() -> int:
    """Print the agreement; 1 when a goal is missed, 2 when there is no real monitor."""
    options = _options()
    firecracker = os.environ.get("FIRECRACKER_BIN")
    if not firecracker:
        print("FIRECRACKER_BIN is not set: there is no real monitor to compare with")
        return 2
    programs = Programs(firecracker, os.environ.get("KERNEL"), os.environ.get("INITRD"))
    tally = Tally()
    for seed in options.seeds:
        walk_at_random(programs, seed, options.calls, tally)
        shares = ", ".join(f"{kind} {tally.share(kind):.2f} %" for kind in GOALS)
        print(f"up to seed {seed}: {shares}", flush=True)
    for gap, walked in sorted(tally.gaps.values(), key=lambda found: found[0].key):
        _print_gap(gap, walked)
    for kind in GOALS:
        print(f"{kind}: {tally.agreed[kind]} of {tally.compared[kind]} agree")
    return any(tally.share(kind) < goal for kind, goal in GOALS.items())


def _print_gap(gap: Gap, walked: list[Drawn]) -> None:
    print(
        f"\n{gap.kind}\n  real:      {gap.real:.400}\n  simulated: {gap.simulated:.400}\n  after:"
    )
    for call in walked:
        print(f"    {call}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make real", description=__doc__)
    parser.add_argument("--calls", type=int, default=1000, help="calls for each seed")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1], help="one walk each")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
