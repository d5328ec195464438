"""`python -m tools.mutation [--minutes 10] [MODULE ...]`: changes that no test notices."""

from __future__ import annotations

import argparse
import sys

from tools.mutation.areas import AREAS, modules
from tools.mutation.playing import NotPlayed, play
from tools.mutation.survivors import EXPLAINED, REFUSED, explanations, pruned, results


def main() -> int:
    """0 when every mutant that was played was killed or is explained."""
    parser = argparse.ArgumentParser(prog="tools.mutation", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="for all modules together")
    parser.add_argument("--children", type=int, default=1, help="mutants that are played at a time")
    parser.add_argument("--base", default="main", help="what the changed modules differ from")
    parser.add_argument(
        "--prune", action="store_true", help="forget explanations of code that is gone"
    )
    parser.add_argument("modules", nargs="*", metavar="MODULE", help=f"of {', '.join(AREAS)}")
    options = parser.parse_args()
    if options.prune:
        EXPLAINED.write_text(pruned(EXPLAINED.read_text()))
        return 0
    try:
        chosen = modules(options.modules, options.base)
        print(f"playing {', '.join(chosen)}", flush=True)
        workplace = play(chosen, options.minutes * 60, options.children)
        found = results(workplace, chosen, explanations(EXPLAINED.read_text()))
    except (ValueError, NotPlayed) as error:
        parser.error(str(error))
    if not found.is_of_any_mutant:
        parser.error("no mutant was played; give it more --minutes, or fewer modules")
    print(*found.unexplained, sep="\n")
    print(", ".join(f"{count} {state}" for state, count in sorted(found.counts.items())))
    return 1 if found.unexplained or found.counts[REFUSED] else 0


if __name__ == "__main__":
    sys.exit(main())
