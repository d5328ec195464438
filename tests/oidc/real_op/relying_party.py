"""A FastAPI app with fastapi_oidc, registered at the real provider and served by uvicorn."""

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI

from fastapi_oidc import OIDC, Clock, Event, OIDCSettings
from tests.oidc.real_op.real_provider import RealProvider
from tests.oidc.real_op.serving import free_socket, serving
from tests.oidc.world import application

SECRET = "a-secret-of-at-least-32-characters-0"
NUMBERS = itertools.count(1)


@dataclass
class ShiftedTime:
    """The real time, moved ahead when a test says so."""

    ahead: float = 0.0

    def read(self) -> float:
        return time.time() + self.ahead


@dataclass
class RelyingParty:
    """What a test sees of one app."""

    origin: str
    oidc: OIDC
    events: list[Event] = field(default_factory=list)
    time: ShiftedTime = field(default_factory=ShiftedTime)

    @property
    def event_names(self) -> list[str]:
        return [event.name for event in self.events]


@contextmanager
def relying_party(
    provider: RealProvider,
    *,
    registration: dict[str, object] | None = None,
    settings: dict[str, object] | None = None,
    options: dict[str, Any] | None = None,
    mount: Callable[[FastAPI, OIDC], None] | None = None,
) -> Iterator[RelyingParty]:
    """Registers a new client and serves its app; the dictionaries change the usual case."""
    with free_socket() as (listener, origin):
        rp, app = _made(provider, origin, registration or {}, settings or {}, options or {})
        if mount is not None:
            mount(app, rp.oidc)
        with serving(app, listener):
            yield rp


def _made(
    provider: RealProvider,
    origin: str,
    registration: dict[str, object],
    settings: dict[str, object],
    options: dict[str, Any],
) -> tuple[RelyingParty, FastAPI]:
    client_id = f"app-{next(NUMBERS)}"
    provider.register(_metadata(client_id, origin, registration))
    events: list[Event] = []
    moved = ShiftedTime()
    usual: dict[str, object] = {
        "issuer": provider.issuer,
        "client_id": client_id,
        "client_secret": SECRET,
        "cookie_secret": "cookie secret of at least 32 bytes",
        "base_url": origin,
        "allow_insecure_http": True,
        "name": client_id,
    }
    if "session_store" not in options:
        options = {"back_channel_logout_store": "memory", **options}
    oidc = OIDC(
        OIDCSettings.model_validate(usual | settings),
        on_event=events.append,
        clock=Clock(read=moved.read),
        **options,
    )
    return RelyingParty(origin, oidc, events, moved), application(oidc, None, {})


def _metadata(client_id: str, origin: str, changes: dict[str, object]) -> dict[str, object]:
    """The usual registration with `changes`; None takes a member away."""
    usual: dict[str, object] = {
        "client_id": client_id,
        "client_secret": SECRET,
        "redirect_uris": [f"{origin}/auth/callback"],
        "post_logout_redirect_uris": [f"{origin}/auth/logged-out"],
        "grant_types": ["authorization_code", "refresh_token"],
        "backchannel_logout_uri": f"{origin}/auth/backchannel-logout",
        "backchannel_logout_session_required": True,
    }
    return {name: value for name, value in {**usual, **changes}.items() if value is not None}
