"""The console's settings, from its environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Annotated, Final, Literal, Self, TypeAlias

from pydantic import AliasGenerator, BaseModel, ConfigDict, Field, ValidationError

from examples.console.words import VARIABLES
from fastapi_oidc import Store

Right: TypeAlias = Literal["view", "operate", "administer"]
ROLES: Final[Mapping[str, Right]] = {"viewer": "view", "operator": "operate", "admin": "administer"}
KEPT_DAYS: Final = 90
REDIS_SECONDS: Final = 5.0
OF_OTHERS: Final = {
    "issuer": "OIDC_ISSUER",
    "firecracker": "FIRECRACKER_BIN",
    "jailer": "JAILER_BIN",
    "kernel": "KERNEL",
    "rootfs": "ROOTFS",
    "sockets": "VMM_SOCKETS",
}
"""The variables that are not called after the console."""
MAY_BE_EMPTY: Final = ("JAILER_BIN", "CONSOLE_SIMULATED_AGENT")
Port: TypeAlias = Annotated[int, Field(ge=0, le=65_535)]
Sessions: TypeAlias = Store | Literal["memory"]


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


def _variable(name: str) -> str:
    return OF_OTHERS.get(name, f"CONSOLE_{name.upper()}")


class ConsoleSettings(BaseModel):
    """The console's port and monitors.

    `sockets` are the monitors by name; if there are none, the console starts monitors itself,
    with `firecracker` or, if that is None, simulated ones. Their files are in `folder`, and
    they outlive the console; if it is None, they end with the console. `kernel` and `rootfs`
    are suggested for new machines. If `issuer` is None, the demo starts its own OpenID Provider
    on `provider_port`. `redis` is the URL of the Redis for sessions; None stores them in
    memory. `metrics_token` enables `/metrics`; with `api_audience` programs may use the API;
    `roles` says where roles come from; events are stored for `keep_days`.
    `images` is the folder of kernels and disks. `jailer` is the program with which machines
    must be jailed; empty means no jails, None means jails where possible. `routes` is the file of
    the APIs that people may give machines access to. With `simulated_agent`, the guests of
    simulated monitors run programs of this host.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        validate_by_name=True,
        alias_generator=AliasGenerator(validation_alias=_variable),
        hide_input_in_errors=True,
    )

    port: Port = 8000
    provider_port: Port = 9400
    sockets: Mapping[str, str] = {}
    issuer: str | None = None
    firecracker: str | None = None
    kernel: str = ""
    rootfs: str = ""
    folder: Path | None = None
    redis: str | None = None
    metrics_token: Annotated[str, Field(min_length=16)] | None = None
    roles: RoleSettings = USUAL_ROLES
    api_audience: str | None = None
    keep_days: Annotated[int, Field(ge=1, le=36_500)] = KEPT_DAYS
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
        known: dict[str, object] = {
            name: value
            for name, value in environment.items()
            if name.startswith("CONSOLE_") or name in VARIABLES
            if value or name in MAY_BE_EMPTY
        }
        # Guests of the demo have the agent, which is behind a key; others only if they are told to.
        agent = environment.get("CONSOLE_SIMULATED_AGENT", "" if "OIDC_ISSUER" in known else "1")
        sockets = known.pop("VMM_SOCKET", "")
        known |= {"CONSOLE_SIMULATED_AGENT": agent or "0", "CONSOLE_ROLES": _roles(known)}
        known["VMM_SOCKETS"] = _sockets(str(known.get("VMM_SOCKETS", sockets)))
        try:
            return cls.model_validate(known)
        except ValidationError as error:
            fault = error.errors(include_url=False, include_input=False)[0]
            raise SettingsError(f"{fault['loc'][0]}: {fault['msg']}.") from error

    def sessions(self, timeout: float = REDIS_SECONDS) -> Sessions:
        """The store of sessions: on the Redis, whose commands may take `timeout` seconds.

        Without a Redis they are in this process. Raises ConfigurationError.
        """
        if self.redis is None:
            return "memory"
        # A console of one process needs no Redis, and no client for it.
        from fastapi_oidc.session.redis import RedisStore

        return RedisStore(self.redis, timeout=timeout)


def _roles(known: dict[str, object]) -> RoleSettings:
    """Takes the three variables of roles."""
    viewers = known.pop("CONSOLE_VIEWERS", "everybody")
    if viewers not in ("everybody", "roles"):
        raise SettingsError(f"CONSOLE_VIEWERS must be everybody or roles, not {viewers!r}")
    given: dict[str, list[str]] = {}
    for part in filter(None, map(str.strip, str(known.get("CONSOLE_ROLES", "")).split(","))):
        value, _, role = part.rpartition("=")
        if not value or role.partition(":")[0] not in ROLES:
            raise SettingsError(f"CONSOLE_ROLES: {part!r} must be value=role, as in ops=admin")
        given.setdefault(value, []).append(role)
    claim = str(known.pop("CONSOLE_ROLES_CLAIM", "roles"))
    return RoleSettings(claim, given or None, everybody_views=viewers == "everybody")


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
