"""Whose time it is, where one part of a program calls another and nothing runs beside it."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import httpx
from starlette.types import ASGIApp, Message, Receive, Scope, Send

TOOK: Final = b"x-seconds-taken"


class Layers:
    """`seconds` of each part, without those of the parts within it; how often it was `entered`."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._within: list[str] = []
        self.clear()

    def clear(self) -> None:
        """Begins anew, at a moment when no part is entered."""
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.entered: Counter[str] = Counter()
        self._since = self._clock()

    @contextmanager
    def within(self, part: str) -> Iterator[None]:
        """The time of the block is this part's."""
        self._attribute()
        self.entered[part] += 1
        self._within.append(part)
        try:
            yield
        finally:
            self._attribute()
            self._within.pop()

    def moved(self, part: str, seconds: float) -> None:
        """So much of the innermost part's time was another part's, which ran elsewhere."""
        self._attribute()
        self.seconds[self._within[-1]] -= seconds
        self.seconds[part] += seconds

    def around(self, app: ASGIApp, part: str) -> ASGIApp:
        """`app`, whose time is this part's."""

        async def asked(scope: Scope, receive: Receive, send: Send) -> None:
            with self.within(part):
                await app(scope, receive, send)

        return asked

    def _attribute(self) -> None:
        """What has passed belongs to the innermost part."""
        now = self._clock()
        if self._within:
            self.seconds[self._within[-1]] += now - self._since
        self._since = now


class TellsItsTime:
    """Middleware that says in each answer how long it took, in seconds."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves the request."""
        began = time.perf_counter()

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                took = f"{time.perf_counter() - began:.6f}".encode()
                message["headers"] = [*message["headers"], (TOOK, took)]
            await send(message)

        await self._app(scope, receive, answer)


class Watched(httpx.AsyncHTTPTransport):
    """Tells `layers` what of an exchange was the server's, which is `part`."""

    def __init__(self, layers: Layers, part: str) -> None:
        super().__init__()
        self._layers, self._part = layers, part

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Asks."""
        response = await super().handle_async_request(request)
        _note(response, self._layers, self._part)
        return response


@contextmanager
def exchanges_in(
    layers: Layers, part: str, server: str, *, besides: Sequence[httpx.AsyncClient]
) -> Iterator[None]:
    """While the block runs, what every client of httpx sends is this part's, `besides` these.

    What the answer says that the server took is the `server`'s.
    """
    send = httpx.AsyncClient.send

    async def measured(
        client: httpx.AsyncClient, request: httpx.Request, **options: Any
    ) -> httpx.Response:
        if client in besides:
            return await send(client, request, **options)
        with layers.within(part):
            response = await send(client, request, **options)
            _note(response, layers, server)
        return response

    httpx.AsyncClient.send = measured  # type: ignore[assignment,method-assign]  # as it is called here
    try:
        yield
    finally:
        httpx.AsyncClient.send = send  # type: ignore[method-assign]  # as it was


def _note(response: httpx.Response, layers: Layers, part: str) -> None:
    layers.moved(part, float(response.headers.get(TOOK.decode(), 0)))
