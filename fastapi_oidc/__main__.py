"""`python -m fastapi_oidc doctor`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from fastapi_oidc.installation import REMEDY, is_mixed

_USAGE = "usage: python -m fastapi_oidc doctor [option=value ...] (see doctor --help)"


def main(arguments: Sequence[str]) -> int:
    """Run the command of that name; the exit status is 2 for an unknown command."""
    if is_mixed():
        print(REMEDY, file=sys.stderr)
        return 2
    if arguments[:1] == ["doctor"]:
        from fastapi_oidc.doctor.command import main as doctor

        return doctor(arguments[1:])
    is_asked = arguments in (["--help"], ["-h"])
    print(_USAGE, file=sys.stdout if is_asked else sys.stderr)
    return 0 if is_asked else 2


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
