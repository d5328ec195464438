"""`tools.fuzz.one TARGET UNTIL [libFuzzer's arguments]`: one target, until a find or its end.

`UNTIL` is a reading of the monotonic clock, which all processes of a machine share.
"""

from __future__ import annotations

import sys
import time
from contextlib import redirect_stderr
from io import StringIO
from random import Random

import atheris

from tools.fuzz.json_changes import changed

with (
    redirect_stderr(StringIO()),  # a line for each module that is instrumented
    atheris.instrument_imports(include=["fastapi_oidc", "generated_vmm", "codegen"]),
):
    from tools.fuzz.targets import TARGETS


def main() -> None:
    """Hand over to libFuzzer, which ends the process."""
    program, target, until, *arguments = sys.argv
    seconds = max(1, int(float(until) - time.monotonic()))
    limited = [program, f"-max_total_time={seconds}", *arguments]
    atheris.Setup(limited, TARGETS[target], custom_mutator=_mutated)
    atheris.Fuzz()


def _mutated(data: bytes, most: int, seed: int) -> bytes:
    """Every second time JSON is changed as JSON, where there is some; else bytes are."""
    chance = Random(seed)
    as_json = changed(data, chance) if chance.random() < 0.5 else None
    if as_json is None or len(as_json) > most:
        return bytes(atheris.Mutate(data, most))
    return as_json


if __name__ == "__main__":
    main()
