"""`python -m generated_vmm.testing --socket PATH`: a simulated monitor until Ctrl-C or SIGTERM."""

from __future__ import annotations

import argparse
import re
import signal
import sys
from collections.abc import Sequence

from generated_vmm.testing.machine import PAYLOAD_LIMIT
from generated_vmm.testing.monitor import SimulatedMonitor


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until a signal (0), the end of the guest (its exit code), or at once 1: path in use.

    A signal removes the socket. The end of the guest leaves it there, as with a real monitor.
    """
    options = _parser().parse_args(arguments)
    monitor = SimulatedMonitor(
        options.socket,
        check_files=not options.any_path,
        enable_pci=options.enable_pci,
        instance_id=options.id,
        payload_limit=options.http_api_max_payload_size,
        mmds_size_limit=options.mmds_size_limit,
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
    if exit_code is None:
        monitor.stop()
    return exit_code or 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m generated_vmm.testing",
        description="A simulated Firecracker monitor on a unix socket, until Ctrl-C.",
    )
    parser.add_argument(
        "--socket", "--api-sock", required=True, metavar="PATH", help="must not exist yet"
    )
    parser.add_argument("--any-path", action="store_true", help="do not check host files")
    parser.add_argument(
        "--id",
        type=_instance_id,
        default="anonymous-instance",
        help="the instance id of GET /: 1 to 64 letters, digits and hyphens",
    )
    parser.add_argument("--enable-pci", action="store_true", help="allow hotplug")
    parser.add_argument(
        "--http-api-max-payload-size",
        type=int,
        default=PAYLOAD_LIMIT,
        metavar="BYTES",
        help="the longest request body, 51200 by default",
    )
    parser.add_argument(
        "--mmds-size-limit", type=int, metavar="BYTES", help="the same number by default"
    )
    return parser


def _instance_id(text: str) -> str:
    if re.fullmatch(r"[A-Za-z0-9-]{1,64}", text) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not 1 to 64 letters, digits and hyphens")
    return text


if __name__ == "__main__":
    sys.exit(main())
