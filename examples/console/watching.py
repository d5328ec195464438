"""Figures and states for Prometheus, behind a token."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

from fastapi import APIRouter, Request
from fastapi.responses import Response
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from examples.console.monitors import Monitors
from examples.console.pages import NO_STORE
from examples.console.words import FIGURES


class MachineCollector(Collector):
    """The last samples of every machine and of the host; a scrape makes no requests."""

    def __init__(self, monitors: Monitors) -> None:
        self._monitors = monitors

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """One family for each kind of figure."""
        machines = self._monitors.all
        state = GaugeMetricFamily(
            "console_machine_state", "1 for the state it is in.", labels=["machine", "state"]
        )
        for machine in machines:
            state.add_metric([machine.name, machine.last_state], 1)
        yield state
        for key, (name, meaning) in FIGURES["machine"].items():
            family = GaugeMetricFamily(f"console_machine_{name}", meaning, labels=["machine"])
            for machine in machines:
                if (value := machine.history.latest(key)) is not None:
                    family.add_metric([machine.name], value)
            yield family
        for key, (name, meaning) in FIGURES["host"].items():
            if (value := self._monitors.host_use.history.latest(key)) is not None:
                yield GaugeMetricFamily(f"console_host_{name}", meaning, value=value)


def routes(monitors: Monitors, token: str) -> APIRouter:
    """The one route."""
    router = APIRouter()
    registry = CollectorRegistry()
    registry.register(MachineCollector(monitors))

    @router.get("/metrics")
    async def metrics(request: Request) -> Response:
        given = request.headers.get("authorization", "").encode()
        if not secrets.compare_digest(given, f"Bearer {token}".encode()):
            refusal = {**NO_STORE, "WWW-Authenticate": "Bearer"}
            return Response("A token is needed.\n", 401, refusal, "text/plain")
        return Response(generate_latest(registry), headers=NO_STORE, media_type=CONTENT_TYPE_LATEST)

    return router
