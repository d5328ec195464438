"""The nursery; a keeper of a tap counts its calls, and kills its caller or itself before one."""

import importlib
import json
import os
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any


def count_calls(killed: str, moment: int) -> None:
    """Counts the calls that make or remove a part of a tap."""
    import fcntl
    import signal

    taps: Any = importlib.import_module("generated_vmm.process.keeper.taps")

    keeping, calls, keep = list[bool](), [0], taps.keep

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*given: Any, **named: Any) -> Any:
            if keeping:
                if calls[0] == moment:
                    pid = os.getpid() if killed == "keeper" else int(os.environ["CALLER"])
                    os.kill(pid, signal.SIGKILL)
                calls[0] += 1
            return call(*given, **named)

        return counting

    def counting_kind(kind: Any) -> Any:
        class Counting(kind):  # type: ignore[misc]
            def __getattr__(self, name: str) -> Any:
                found = super().__getattr__(name)
                return counted(found) if name in ("link", "addr", "table") else found

        return Counting

    def keep_counted(*given: Any) -> None:
        keeping.append(True)
        keep(*given)

    taps.keep = keep_counted
    fcntl.ioctl = counted(fcntl.ioctl)
    taps.IPRoute, taps.NFTables = map(counting_kind, (taps.IPRoute, taps.NFTables))


if __name__ == "__main__":
    program = Path(os.environ["NURSERY"])
    before, sys.path[:] = list(sys.path), json.loads(sys.argv[1])
    process = program.parent.parent
    for name, folder in (("generated_vmm", process.parent), ("generated_vmm.process", process)):
        sys.modules[name] = ModuleType(name)
        sys.modules[name].__path__ = [str(folder)]
    killed, moment = os.environ["KILLED"].split()
    count_calls(killed, int(moment))
    sys.path[:] = before
    runpy.run_path(str(program), run_name="__main__")
