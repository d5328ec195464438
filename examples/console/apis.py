"""The APIs that machines may call as a person, from a file of routes."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from examples.console.settings import SettingsError
from fastapi_oidc import ConfigurationError, DownstreamAPI
from fastapi_oidc.broker import Route


class Apis(NamedTuple):
    """The broker's routes by name, and the APIs for which sessions get tokens."""

    routes: Mapping[str, Route]
    downstream: Sequence[DownstreamAPI]


NO_APIS: Final = Apis({}, ())
_OF_TOKEN: Final = {"grant", "audience", "resource", "scope"}


class RouteTable(BaseModel):
    """One route as the file has it: options of `Route`, and how its token is requested."""

    model_config = ConfigDict(extra="forbid")

    url: str
    allow: list[str]
    approve: list[str] = []
    audience: str | None = None
    resource: str | None = None
    scope: list[str] = []
    own_token: bool = False
    headers: list[str] = []
    networks: list[str] = []
    grant: Literal["token_exchange", "refresh_token", "on_behalf_of"] = "token_exchange"


def apis_in(path: Path) -> Apis:
    """The routes of a file in TOML, a table for each name. Raises SettingsError."""
    try:
        content = tomllib.loads(path.read_text())
        tables = TypeAdapter(dict[str, RouteTable]).validate_python(content)
        routes = {name: Route(**one.model_dump(exclude={"grant"})) for name, one in tables.items()}
        with_tokens = [one for one in tables.values() if not one.own_token]
        apis = [DownstreamAPI(**one.model_dump(include=_OF_TOKEN)) for one in with_tokens]
    except ValidationError as error:
        wrong = error.errors()[0]
        place = ".".join(str(part) for part in wrong["loc"])
        raise SettingsError(f"CONSOLE_ROUTES: {place}: {wrong['msg']}") from error
    except (OSError, ValueError, ConfigurationError) as error:
        raise SettingsError(f"CONSOLE_ROUTES: {error}") from error
    return Apis(routes, list(dict.fromkeys(apis)))
