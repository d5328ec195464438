"""`tools.load [--seconds 60] [--fault-each 60]`: many people on a fleet, held against rules."""

from __future__ import annotations

import argparse
import asyncio
import sys
from functools import partial

from examples.fleet.fleet import running_fleet
from examples.fleet.interrupts import interrupt_once
from examples.fleet.part import StartError
from tools.benchmarks.figures import machine
from tools.load.run import Outcome, Plan, lines, loaded, shape_for


def main() -> int:
    """0 when every rule held, 1 when one was broken, 2 when there is no fleet; never for a time."""
    interrupt_once()
    plan = _plan()
    try:
        outcome = _measured(plan)
    except StartError as error:
        print(f"There is no fleet: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    print("\n".join(lines(outcome)))
    return 0 if outcome.site.verdict.holds else 1


def _measured(plan: Plan) -> Outcome:
    shape = shape_for(plan)
    with running_fleet(shape) as fleet:
        print(f"{machine()}\n{len(fleet.workers)} workers behind nginx, {plan.browsers} browsers;")
        print(f"access tokens live {shape.access_token} s; {plan.seconds:g} s\n", flush=True)
        # Ends within the fleet: a part that is being started belongs to it.
        return asyncio.run(loaded(fleet, plan, partial(print, flush=True)))


def _plan() -> Plan:
    parser = argparse.ArgumentParser(prog="python -m tools.load", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="how long people come")
    parser.add_argument("--browsers", type=int, default=16, help="how many at a time")
    parser.add_argument("--fault-each", type=float, metavar="SECONDS", help="none without")
    parser.add_argument("--seed", type=int, default=0, help="of all that is left to chance")
    given = parser.parse_args()
    return Plan(
        seconds=given.seconds,
        browsers=given.browsers,
        fault_each=given.fault_each,
        seed=given.seed,
    )


if __name__ == "__main__":
    sys.exit(main())
