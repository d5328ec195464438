"""Many connections that ask a server for the same thing again and again, each as fast as it can."""

from __future__ import annotations

import asyncio
import math
import statistics
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from typing import NamedTuple

HEAD_ENDS = b"\r\n\r\n"
LENGTH = b"content-length:"


class Load(NamedTuple):
    """Answers in a second; milliseconds within which half and 99 of 100 of them came; their number.

    `cpu` is what an answer took of the servers' processors, microseconds, where that is known, and
    `redis` what it took of Redis'.
    """

    rate: float
    p50: float
    p99: float
    answers: float
    cpu: float = math.nan
    redis: float = math.nan


@dataclass
class Turn:
    """What the connections of one turn have in common; `ends` by the clock of the event loop."""

    ends: float
    took: list[float]


class Connection(asyncio.Protocol):
    """Asks until the turn ends, one request at a time; any answer but 200 is an error."""

    def __init__(self, requests: Iterable[bytes], turn: Turn) -> None:
        self._requests, self._turn = cycle(requests), turn
        self._received = b""
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport
        self._ask()

    def data_received(self, data: bytes) -> None:
        self._received += data
        if not is_whole(self._received):
            return
        now = time.perf_counter()
        self._turn.took.append(now - self._asked)
        if not self._received.startswith(b"HTTP/1.1 200 "):
            self._end(RuntimeError(f"the benchmark was answered {self._received[:80]!r}"))
        elif now >= self._turn.ends:
            self._end(None)
        else:
            self._ask()

    def connection_lost(self, error: Exception | None) -> None:
        self._end(error or ConnectionResetError("the server closed the connection"))

    def _ask(self) -> None:
        self._received = b""
        self._asked = time.perf_counter()
        self._transport.write(next(self._requests))

    def _end(self, error: Exception | None) -> None:
        if not self.over.done():
            self.over.set_result(None) if error is None else self.over.set_exception(error)
        self._transport.close()


async def load(port: int, requests: Sequence[bytes], seconds: float, *, connections: int) -> Load:
    """So many connections to a port of this machine, for so long; they share the requests out."""
    loop = asyncio.get_running_loop()
    began = time.perf_counter()
    turn = Turn(began + seconds, [])
    opened = [
        await loop.create_connection(partial(Connection, each, turn), "127.0.0.1", port)
        for each in (requests[number::connections] for number in range(connections))
    ]
    await asyncio.gather(*(connection.over for _, connection in opened))
    return summary(turn.took, time.perf_counter() - began)


def summary(took: Sequence[float], seconds: float) -> Load:
    """Of answers that took so many seconds each, and that long together."""
    hundredths = statistics.quantiles(took, n=100, method="inclusive")
    return Load(len(took) / seconds, hundredths[49] * 1000, hundredths[98] * 1000, len(took))


def is_whole(received: bytes) -> bool:
    """Whether these bytes are an answer, or a request, with its body."""
    head, end, body = received.partition(HEAD_ENDS)
    if not end:
        return False
    _, named, rest = head.lower().partition(LENGTH)
    return not named or len(body) >= int(rest.partition(b"\r\n")[0])


def get(path: str, cookie: str) -> bytes:
    """A request as a browser behind a proxy with TLS would bring it."""
    lines = [f"GET {path} HTTP/1.1", "Host: app.example.com", "X-Forwarded-Proto: https"]
    lines += [f"Cookie: {cookie}"] if cookie else []
    return "\r\n".join([*lines, "", ""]).encode()
