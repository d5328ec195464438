"""Figures and states for Prometheus, behind a token."""

from __future__ import annotations

import secrets
from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import Response
from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from examples.console.monitors import Monitors
from examples.console.pages import NO_STORE
from examples.console.words import FIGURES

NAMES: Final = ("machine", "state")


def figures_of(monitors: Monitors) -> CollectorRegistry:
    """The last samples of every machine and of the host; they make no requests."""
    registry = CollectorRegistry()
    state = Gauge("console_machine_state", "1 for the state it is in.", NAMES, registry=registry)
    for machine in monitors.all:
        state.labels(machine.name, machine.last_state).set(1)
    for key, (name, meaning) in FIGURES["machine"].items():
        gauge = Gauge(f"console_machine_{name}", meaning, NAMES[:1], registry=registry)
        for machine in monitors.all:
            if (value := machine.history.latest(key)) is not None:
                gauge.labels(machine.name).set(value)
    for key, (name, meaning) in FIGURES["host"].items():
        if (value := monitors.host_use.history.latest(key)) is not None:
            Gauge(f"console_host_{name}", meaning, registry=registry).set(value)
    return registry


def routes(monitors: Monitors, token: str) -> APIRouter:
    """The one route."""
    router = APIRouter()

    @router.get("/metrics")
    async def metrics(request: Request) -> Response:
        given = request.headers.get("authorization", "").encode()
        if not secrets.compare_digest(given, f"Bearer {token}".encode()):
            refusal = {**NO_STORE, "WWW-Authenticate": "Bearer"}
            return Response("A token is needed.\n", 401, refusal, "text/plain")
        content = generate_latest(figures_of(monitors))
        return Response(content, headers=NO_STORE, media_type=CONTENT_TYPE_LATEST)

    return router
