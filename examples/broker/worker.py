"""A worker that runs for hours as a person, and stops when the person takes that back."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from http import HTTPStatus

import httpx

ENDED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.NOT_FOUND)
"""The access was withdrawn, has expired or was never given: nothing that a worker can mend."""


async def counts(guest: httpx.AsyncClient, seconds: float) -> AsyncIterator[int]:
    """The number of the person's events, again and again, until the access ends."""
    while True:
        answer = await guest.get("/events")
        if answer.status_code in ENDED:
            return
        if answer.is_success:  # otherwise the API or the store is down: try again
            yield len(answer.json())
        await asyncio.sleep(seconds)


async def main(socket: str = "", seconds: float = 60) -> None:
    """Print each number.

    `socket` is that of the access; a program within a guest has `http_proxy` in its environment.
    """
    transport = httpx.AsyncHTTPTransport(uds=socket) if socket else None
    async with httpx.AsyncClient(transport=transport, base_url="http://calendar.internal") as guest:
        async for count in counts(guest, seconds):
            print(f"events: {count}", flush=True)
    print("the person has ended the access", flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if sys.argv[1:] else ""))
