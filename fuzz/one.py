"""`python -m fuzz.one TARGET UNTIL [libFuzzer's arguments]`: one target, until a find or its end.

`UNTIL` is a reading of the monotonic clock, which all processes of a machine share.
"""

from __future__ import annotations

import sys
import time
from contextlib import redirect_stderr
from io import StringIO

import atheris

with (
    redirect_stderr(StringIO()),  # a line for each module that is instrumented
    atheris.instrument_imports(include=["fastapi_oidc", "generated_vmm", "codegen"]),
):
    from fuzz.targets import TARGETS


def main() -> None:
    """Hand over to libFuzzer, which ends the process."""
    program, target, until, *arguments = sys.argv
    seconds = max(1, int(float(until) - time.monotonic()))
    atheris.Setup([program, f"-max_total_time={seconds}", *arguments], TARGETS[target])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
