"""What the console is told by its environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Self


class SettingsError(Exception):
    """The environment makes no sense; the message says which variable and why."""


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    """Where the console listens and which monitors it shows.

    `sockets` are the monitors by name; none means that the demo brings its own. `issuer` is None
    when the demo brings its own OpenID Provider, which then listens on `provider_port`.
    """

    port: int
    provider_port: int
    sockets: Mapping[str, str]
    issuer: str | None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        """Reads CONSOLE_PORT, CONSOLE_PROVIDER_PORT, VMM_SOCKETS or VMM_SOCKET, OIDC_ISSUER."""
        return cls(
            port=_port(environment, "CONSOLE_PORT", 8000),
            provider_port=_port(environment, "CONSOLE_PROVIDER_PORT", 9400),
            sockets=_sockets(environment.get("VMM_SOCKETS") or environment.get("VMM_SOCKET", "")),
            issuer=environment.get("OIDC_ISSUER") or None,
        )


def _port(environment: Mapping[str, str], name: str, default: int) -> int:
    text = environment.get(name) or str(default)
    if not text.isdecimal() or int(text) > 65535:
        raise SettingsError(f"{name} must be a port number, not {text!r}")
    return int(text)


def _sockets(text: str) -> dict[str, str]:
    """`path,path` or `name=path,name=path`; a path without a name is called after its file."""
    sockets: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, separator, path = part.partition("=")
        if not separator:
            name, path = PurePath(part).stem, part
        if not name or "/" in name or name in sockets:
            raise SettingsError(f"VMM_SOCKETS: {part!r} needs a name of its own, as in name=path")
        sockets[name] = path
    return sockets
