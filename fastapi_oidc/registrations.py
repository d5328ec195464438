"""The registrations of an `OIDC` instance: one, several, or those that a function finds."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final, TypeAlias

from starlette.requests import HTTPConnection

from fastapi_oidc.assembly import Assembly, Options
from fastapi_oidc.concurrency import called
from fastapi_oidc.errors import misconfigured
from fastapi_oidc.flows.relying_party import RelyingParty, ResolveIdentity
from fastapi_oidc.settings import DEFAULT_NAME, OIDCSettings
from fastapi_oidc.web.misuse import require_kind, require_takes
from fastapi_oidc.web.runtime import LoadRequestData, Runtime

MOST_FOUND: Final = 1000
"""Maximum number of registrations that one process remembers of those that a function has found. If
there are more, the process drops the least recently used one, with its metadata and keys.
"""

_SHARED: Final = ("cookie_secret", "base_url", "trusted_origins")
"""Settings that several registrations have in common."""

Find: TypeAlias = Callable[[HTTPConnection], OIDCSettings | Awaitable[OIDCSettings | None] | None]
"""Returns the registration of a request or websocket, None if it has none."""

Given: TypeAlias = OIDCSettings | Mapping[str, OIDCSettings] | Find
"""One registration, several by their labels, or a function that finds them."""


class Registrations:
    """What serves the requests of an instance. Raises ConfigurationError."""

    def __init__(
        self,
        given: Given,
        resolve_identity: ResolveIdentity[Any] | None,
        load_request_data: LoadRequestData[Any, Any] | None,
        options: Options[Any, Any],
    ) -> None:
        self.settings: Sequence[OIDCSettings] | None = None
        """The settings of fixed registrations; None if a function finds them."""
        self.fixed: Runtime | None = None
        self.only: str | None = None
        """The name of the registration that is alone here."""
        self._find: Find | None = None
        self._found: OrderedDict[object, tuple[OIDCSettings, Runtime]] = OrderedDict()
        registered: Mapping[str, OIDCSettings] = {}
        name = options.get("name") or DEFAULT_NAME
        if isinstance(given, OIDCSettings):
            name = options.get("name") or given.name
            registered = {given.name: given}
        elif isinstance(given, Mapping):
            _require_apart(given)
            registered = given
        elif isinstance(given, type) or not callable(given):
            several = ' (several are a dict: {"staff": OIDCSettings(...), ...})'
            require_kind(f"settings of OIDC{several}", given, OIDCSettings)
        else:
            require_takes("the function that finds the settings", given, HTTPConnection)
            self._find = given
        self._assembly = Assembly(
            name, registered.values(), resolve_identity, load_request_data, options
        )
        self.engine = self._assembly.engine
        if registered:
            self.settings = tuple(registered.values())
            self.fixed = self._assembly.serving(registered, name)

    async def serving(self, connection: HTTPConnection) -> Runtime | None:
        """What serves this request; None for a request without a registration."""
        if self.fixed is not None or self._find is None:
            return self.fixed
        found = await called(self._find, connection)
        if found is None:
            return None
        require_kind("the result of the function of OIDC", found, OIDCSettings)
        return self._make(found)

    def alone(self, settings: OIDCSettings) -> Registrations:
        """One registration alone; raises ConfigurationError for an unknown one."""
        require_kind("settings of oidc.registration", settings, OIDCSettings)
        alone = copy.copy(self)
        alone.settings, alone.fixed = (settings,), self._runtime_of(settings)
        alone.only = settings.name
        return alone

    def _runtime_of(self, settings: OIDCSettings) -> Runtime:
        if self.fixed is None:
            return self._make(settings)
        party = self.fixed.party.named(settings.name)
        if party is None or party.settings != settings:
            raise misconfigured(
                "oidc.registration takes the settings of a registration of this instance"
            )
        together: list[RelyingParty] = []
        together.append(replace(party, together=together))
        return replace(self.fixed, party=together[0])

    def _make(self, settings: OIDCSettings) -> Runtime:
        name = settings.name
        key = name, settings.base_url, settings.issuer, settings.client_id
        known, runtime = self._found.pop(key, (None, None))
        if runtime is None or (known is not settings and known != settings):
            runtime = self._assembly.serving({name: settings}, name)
        self._found[key] = settings, runtime
        if len(self._found) > MOST_FOUND:
            self._found.popitem(last=False)
        return runtime


def _require_apart(several: Mapping[str, OIDCSettings]) -> None:
    """Require a name and a client of its own for each of several, and what they have in common."""
    for label, settings in several.items():
        require_kind(f"the settings of {label!r}", settings, OIDCSettings)
    names = {each.name for each in several.values()}
    clients = {(each.issuer, each.client_id) for each in several.values()}
    if not several or min(len(names), len(clients)) < len(several):
        raise misconfigured("each of several registrations needs a `name` and a client of its own")
    for one, other in pairwise(several.values()):
        for setting in _SHARED:
            if getattr(one, setting) != getattr(other, setting):
                raise misconfigured(
                    f"{setting} of {one.name!r} and {other.name!r} differ; several registrations "
                    f"of one instance have {', '.join(_SHARED)} in common"
                )
