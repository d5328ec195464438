"""The commands of the prompt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from examples.fleet.part import Part, StartError

HELP: Final = """\
  restart worker 3     stop | start | restart | kill | pause | resume
  restart machine 1    both of its workers
  stop redis           no request is served until: start redis
  reload nginx
  stop provider        sessions continue until their access tokens expire
  kill monitor demo
  status, help, quit"""


def carried_out(line: str, parts: Mapping[str, Part]) -> str:
    """Carries out `line`, and returns the result; an unknown line changes nothing."""
    verb, _, name = " ".join(line.split()).partition(" ")
    if verb in ("status", ""):
        return status(parts)
    if verb == "help":
        return HELP
    if name not in parts:
        return f"There is no {name or 'such command'}. Type help for the commands."
    part = parts[name]
    if verb not in part.actions:
        return f"{name} can {', '.join(part.actions)}."
    try:
        part.actions[verb]()
    except StartError as error:
        return str(error)
    return f"{name}: {part.state}"


def status(parts: Mapping[str, Part]) -> str:
    """A line for each part."""
    return "\n".join(f"  {name:16} {part.state}" for name, part in parts.items())
