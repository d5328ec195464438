"""`python -m fastapi_oidc doctor`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from fastapi_oidc.doctor.command import main as doctor


def main(arguments: Sequence[str]) -> int:
    """Run the command of that name; the exit status is 2 for an unknown command."""
    if arguments[:1] == ["doctor"]:
        return doctor(arguments[1:])
    print(
        "usage: python -m fastapi_oidc doctor [option=value ...] (see --help)",
        file=sys.stderr,
    )
    return 2


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
