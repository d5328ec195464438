"""What the parts of `OIDC` have in common: the registrations that serve a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic

from starlette.requests import HTTPConnection

from fastapi_oidc.errors import Code, ConfigurationError
from fastapi_oidc.flows.relying_party import RelyingParty
from fastapi_oidc.session.model import Identity
from fastapi_oidc.web.misuse import require_kind
from fastapi_oidc.web.request_context import RequestContext
from fastapi_oidc.web.request_contexts import context_of, of_this_task
from fastapi_oidc.web.runtime import Registrations, RequestData, Runtime


class Serving(Generic[Identity, RequestData]):
    """Finds the registrations of a request."""

    if TYPE_CHECKING:

        @property
        def registrations(self) -> Registrations[Identity, RequestData]:
            """Those of the instance."""
            ...

    @property
    def runtime(self) -> Runtime[Identity, RequestData]:
        """What serves every request, or the running one if each has its own registration.

        Raises ConfigurationError outside of a request that has a registration.
        """
        if (fixed := self.registrations.fixed) is not None:
            return fixed
        name, reference = self.registrations.engine.name, of_this_task.get()
        contexts = None if reference is None else reference()
        context = contexts.find(name) if contexts is not None and name in contexts.names else None
        if context is None:
            raise ConfigurationError(
                Code.CONFIGURATION_INVALID,
                "a function finds the registration of each request, and there is none here: "
                "oidc.registration(settings) is the instance for one registration",
            )
        return context.runtime

    def _context(self, connection: HTTPConnection) -> RequestContext[Identity, RequestData]:
        require_kind("the request or websocket", connection, HTTPConnection)
        return context_of(connection, self.registrations.engine.name)

    def _only(self) -> RelyingParty[Identity]:
        """The only registration; raises ConfigurationError if there are several."""
        party = self.runtime.party
        if party.is_one_of_several:
            explanation = "of several registrations, oidc.registration(settings) chooses one"
            raise ConfigurationError(Code.CONFIGURATION_INVALID, explanation)
        return party
