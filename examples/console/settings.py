"""The console's settings, from its environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path, PurePath
from typing import Final, Literal, Self, TypeAlias

from examples.console.words import VARIABLES

Right: TypeAlias = Literal["view", "operate", "administer"]
KEPT_DAYS: Final = 90
ROLES: Final[Mapping[str, Right]] = {"viewer": "view", "operator": "operate", "admin": "administer"}
SHORTEST_TOKEN: Final = 16
"""Characters of the token for metrics."""


class SettingsError(Exception):
    """An invalid setting; the message names the variable and the reason."""


@dataclass(frozen=True, slots=True)
class RoleSettings:
    """Where users' roles come from.

    The values of `claim`, a name or a path with dots, are roles; or with `given`, values with the
    roles that they give. With `everybody_views`, users need no role to view machines.
    """

    claim: str = "roles"
    given: Mapping[str, Sequence[str]] | None = None
    everybody_views: bool = True


USUAL_ROLES: Final = RoleSettings()


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    """The console's port and monitors.

    `sockets` are the monitors by name; if there are none, the console starts monitors itself,
    with `firecracker` or, if that is None, simulated ones. Their files are in `folder`, and
    they outlive the console; if it is None, they end with the console. `kernel` and `rootfs`
    are suggested for new machines. If `issuer` is None, the demo starts its own OpenID Provider
    on `provider_port`. `redis` is the URL of the Redis for sessions; None stores them in
    memory. `metrics_token` enables `/metrics`; with `api_audience` programs may use the API;
    `roles` says where roles come from; events are stored for `kept_days`.
    `images` is the folder of kernels and disks. `jailer` is the program with which machines
    must be jailed; empty means no jails, None means jails where possible. `routes` is the file of
    the APIs that people may give machines access to. With `simulated_agent`, the guests of
    simulated monitors run programs of this host.
    """

    port: int
    provider_port: int
    sockets: Mapping[str, str]
    issuer: str | None
    firecracker: str | None = None
    kernel: str = ""
    rootfs: str = ""
    folder: Path | None = None
    redis: str | None = None
    metrics_token: str | None = None
    roles: RoleSettings = USUAL_ROLES
    api_audience: str | None = None
    kept_days: int = KEPT_DAYS
    images: Path | None = None
    jailer: str | None = None
    routes: Path | None = None
    simulated_agent: bool = False

    @property
    def needs_key(self) -> bool:
        """Whether machines or their guests are programs of this host, and nobody has a password."""
        runs = self.firecracker or (self.simulated_agent and not self.sockets)
        return bool(runs) and self.issuer is None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        """Reads the variables that the README of the console lists. Raises SettingsError."""
        _require_known(environment)
        return cls(
            port=_port(environment, "CONSOLE_PORT", 8000),
            provider_port=_port(environment, "CONSOLE_PROVIDER_PORT", 9400),
            sockets=_sockets(environment.get("VMM_SOCKETS") or environment.get("VMM_SOCKET", "")),
            issuer=environment.get("OIDC_ISSUER") or None,
            firecracker=environment.get("FIRECRACKER_BIN") or None,
            kernel=environment.get("KERNEL", ""),
            rootfs=environment.get("ROOTFS", ""),
            folder=_path(environment, "CONSOLE_FOLDER"),
            metrics_token=_token(environment.get("CONSOLE_METRICS_TOKEN", "")),
            api_audience=environment.get("CONSOLE_API_AUDIENCE") or None,
            roles=_roles(environment),
            kept_days=_days(environment.get("CONSOLE_KEEP_DAYS") or str(KEPT_DAYS)),
            images=_path(environment, "CONSOLE_IMAGES"),
            redis=environment.get("CONSOLE_REDIS") or None,
            jailer=environment.get("JAILER_BIN"),
            routes=_path(environment, "CONSOLE_ROUTES"),
            simulated_agent=_simulated_agent(environment),
        )


def _require_known(environment: Mapping[str, str]) -> None:
    for name in environment:
        if name.startswith("CONSOLE_") and name not in VARIABLES:
            (likely,) = get_close_matches(name, VARIABLES, n=1, cutoff=0)
            raise SettingsError(f"{name} is no variable of the console. Is {likely} meant?")


def _token(text: str) -> str | None:
    if text and len(text) < SHORTEST_TOKEN:
        raise SettingsError(
            f"CONSOLE_METRICS_TOKEN has {len(text)} characters, and whoever guesses it reads the "
            "metrics: openssl rand -base64 32"
        )
    return text or None


def _port(environment: Mapping[str, str], name: str, default: int) -> int:
    text = environment.get(name) or str(default)
    if not text.isdecimal() or int(text) > 65535:
        raise SettingsError(f"{name} must be a port number, not {text!r}")
    return int(text)


def _path(environment: Mapping[str, str], name: str) -> Path | None:
    folder = environment.get(name)
    return Path(folder).absolute() if folder else None


def _simulated_agent(environment: Mapping[str, str]) -> bool:
    """Guests of the demo have it, which is behind a key; others only if they are told to."""
    usual = "" if environment.get("OIDC_ISSUER") else "1"
    text = environment.get("CONSOLE_SIMULATED_AGENT", usual)
    if text not in ("", "1"):
        raise SettingsError(f"CONSOLE_SIMULATED_AGENT must be 1 or empty, not {text!r}")
    return text == "1"


def _roles(environment: Mapping[str, str]) -> RoleSettings:
    viewers = environment.get("CONSOLE_VIEWERS") or "everybody"
    if viewers not in ("everybody", "roles"):
        raise SettingsError(f"CONSOLE_VIEWERS must be everybody or roles, not {viewers!r}")
    given: dict[str, list[str]] = {}
    for part in filter(None, map(str.strip, environment.get("CONSOLE_ROLES", "").split(","))):
        value, _, role = part.rpartition("=")
        if not value or role.partition(":")[0] not in ROLES:
            raise SettingsError(f"CONSOLE_ROLES: {part!r} must be value=role, as in ops=admin")
        given.setdefault(value, []).append(role)
    claim = environment.get("CONSOLE_ROLES_CLAIM") or "roles"
    return RoleSettings(claim, given or None, everybody_views=viewers == "everybody")


def _days(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 36_500:
        raise SettingsError(f"CONSOLE_KEEP_DAYS must be a number of days, not {text!r}")
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
