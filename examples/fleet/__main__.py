"""`python -m examples.fleet`: the fleet, and a prompt to stop and start its parts."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress

from examples.console.settings import SettingsError
from examples.fleet.commands import HELP, carried_out, status
from examples.fleet.fleet import Fleet, Shape, running_fleet
from examples.fleet.interrupts import ignore_interrupts, interrupt_once
from examples.fleet.part import StartError


def main() -> int:
    """Serves until quit, Ctrl-C or SIGTERM (0); a wrong setup prints one sentence (2)."""
    interrupt_once()
    try:
        with suppress(KeyboardInterrupt), running_fleet(_shape(os.environ)) as fleet:
            try:
                _serve(fleet)
            finally:
                ignore_interrupts()
                print("\nStopping the fleet", flush=True)
    except (StartError, SettingsError) as error:
        print(f"The fleet cannot start: {error}", file=sys.stderr)
        return 2
    return 0


def _shape(environment: Mapping[str, str]) -> Shape:
    usual = Shape()
    return Shape(
        port=_port(environment, "FLEET_PORT", usual.port),
        provider_port=_port(environment, "FLEET_PROVIDER_PORT", usual.provider_port),
    )


def _port(environment: Mapping[str, str], name: str, default: int) -> int:
    text = environment.get(name) or str(default)
    if not text.isdecimal() or int(text) > 65535:
        raise SettingsError(f"{name} must be a port number, not {text!r}")
    return int(text)


def _serve(fleet: Fleet) -> None:
    """The prompt; without a terminal the fleet runs until a signal comes."""
    print(_welcome(fleet), flush=True)
    while True:
        try:
            line = input("fleet> " if sys.stdin.isatty() else "")
        except EOFError:
            break
        if line.strip() == "quit":
            return
        print(carried_out(line, fleet.parts), flush=True)
    threading.Event().wait()


def _welcome(fleet: Fleet) -> str:
    return f"""
  The fleet         {fleet.url}/fleet
  The console       {fleet.url}
  The certificate was made just now: your browser asks whether to go on.
  Sign in as        alice (admin) or bob (viewer), no password, at {fleet.op.issuer}
  Logs and sockets  {fleet.folder}

{status(fleet.parts)}

{HELP}
  Stop with         quit or Ctrl-C
"""


if __name__ == "__main__":
    sys.exit(main())
