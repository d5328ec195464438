"""`python -m generated_vmm.testing --socket PATH`: a simulated monitor until Ctrl-C or SIGTERM."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence

from .machine import PAYLOAD_LIMIT
from .monitor import SimulatedMonitor


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until stopped. 0 after a signal or the guest's end, 1 when the path is in use."""
    options = _parser().parse_args(arguments)
    monitor = SimulatedMonitor(
        options.socket,
        check_files=not options.any_path,
        enable_pci=options.enable_pci,
        instance_id=options.id,
        payload_limit=options.payload_limit,
    )
    try:
        monitor.listen()
    except OSError as error:
        print(error.strerror, file=sys.stderr)
        return 1
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: monitor.interrupt())
    print(f"Simulated monitor listening on {monitor.socket_path}", flush=True)
    exit_code = monitor.serve()
    monitor.stop()
    return exit_code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m generated_vmm.testing", description=__doc__)
    parser.add_argument("--socket", required=True, help="where to listen; must not exist")
    parser.add_argument("--id", default="anonymous-instance", help="instance id of GET /")
    parser.add_argument("--any-path", action="store_true", help="accept paths that do not exist")
    parser.add_argument("--enable-pci", action="store_true", help="allow hotplug")
    parser.add_argument("--payload-limit", type=int, default=PAYLOAD_LIMIT, metavar="BYTES")
    return parser


if __name__ == "__main__":
    sys.exit(main())
