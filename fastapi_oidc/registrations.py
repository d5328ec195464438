"""The registrations of an `OIDC` instance: one, several, or those that a function finds."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, permutations
from typing import Any, Final, NamedTuple, TypeAlias

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

_SHARED: Final = (
    "cookie_secret",
    "base_url",
    "allow_insecure_http",
    "trusted_origins",
    "max_cookie_size",
)
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
        self._found: OrderedDict[_Client, tuple[OIDCSettings, Runtime]] = OrderedDict()
        registered: dict[str, OIDCSettings] = {}
        name = options.get("name") or DEFAULT_NAME
        if isinstance(given, OIDCSettings):
            name = options.get("name") or given.name
            registered = {given.name: given}
        elif isinstance(given, Mapping):
            registered = _checked(given)
        else:
            _require_function(given)
            self._find = given
        self._assembly = Assembly(
            name, registered.values(), resolve_identity, load_request_data, options
        )
        self.engine = self._assembly.engine
        if registered:
            self.settings = tuple(registered.values())
            self.fixed = self._assembly.runtime(registered, name)

    async def serving(self, connection: HTTPConnection) -> Runtime | None:
        """What serves this request; None for a request without a registration."""
        if self.fixed is not None or self._find is None:
            return self.fixed
        try:
            found = await called(self._find, connection)
        except KeyError as error:
            if not connection.path_params:
                error.add_note(
                    "The function that finds the settings runs before the routes, so that "
                    "connection.path_params is empty: read connection.url.path."
                )
            raise
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

    def without_sign_in(self) -> Registrations:
        """These registrations for an application without sign-in."""
        api = copy.copy(self)
        api.engine = copy.copy(self.engine)
        api.engine.signs_in = False
        api.fixed = None if self.fixed is None else replace(self.fixed, engine=api.engine)
        return api

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
        key = _Client(name, settings.base_url, settings.issuer, settings.client_id)
        known, runtime = self._found.pop(key, (None, None))
        if runtime is None or (known is not settings and known != settings):
            runtime = self._assembly.runtime({name: settings}, name)
            self._report_namesakes(key)
        self._found[key] = settings, runtime
        if len(self._found) > MOST_FOUND:
            self._found.popitem(last=False)
        return runtime

    def _report_namesakes(self, client: _Client) -> None:
        """Log that there is another registration with this name: they share names of cookies."""
        for other in self._found:
            if other.name == client.name:
                self.engine.announcer.advise(
                    f"name {client.name!r}",
                    f"two registrations have it: {other.of} and {client.of}. If they are of two "
                    "tenants, give the settings of each a `name` of its own",
                )


class _Client(NamedTuple):
    """What makes a registration that a function has found another one."""

    name: str
    base_url: str | None
    issuer: str
    client_id: str

    @property
    def of(self) -> str:
        """The registration in a log."""
        return f"{self.issuer} at {self.base_url}"


def _require_function(given: object) -> None:
    """Raise TypeError for what is no registration: a class is callable, but finds none."""
    if isinstance(given, type) or not callable(given):
        several = ' (several are a dict: {"staff": OIDCSettings(...), ...})'
        require_kind(f"settings of OIDC{several}", given, OIDCSettings)
    require_takes("the function that finds the settings", given, HTTPConnection)


def _checked(given: Mapping[str, OIDCSettings]) -> dict[str, OIDCSettings]:
    """The settings by label, each with a name and a client of its own."""
    for label, settings in given.items():
        require_kind("a label in the settings of OIDC", label, str)
        require_kind(f"the settings of {label!r}", settings, OIDCSettings)
    several = dict(given)
    names = {each.name for each in several.values()}
    clients = {(each.issuer, each.client_id) for each in several.values()}
    if not several or min(len(names), len(clients)) < len(several):
        raise misconfigured("each of several registrations needs a `name` and a client of its own")
    for one, other in permutations(several.values(), 2):
        if one.client_id == other.client_id and one.trusted_issuer().has(other.issuer):
            raise misconfigured(
                f"{one.name!r} has the tenant of {other.name!r} too: who serves it?"
            )
    for one, other in pairwise(several.values()):
        for setting in _SHARED:
            if getattr(one, setting) != getattr(other, setting):
                raise misconfigured(
                    f"{setting} of {one.name!r} and {other.name!r} differ; several registrations "
                    f"of one instance have {', '.join(_SHARED)} in common"
                )
    return several
