"""A worker: it goes on for the person after the response, until the access ends."""

import asyncio

import httpx

from fastapi_oidc.broker import Access, Broker


class Worker:
    """Counts the events of a calendar. `told` is why it stopped."""

    def __init__(self, broker: Broker, seconds: float = 1.0) -> None:
        self._broker, self._seconds = broker, seconds
        self.looks, self.events, self.told = 0, 0, ""

    async def run(self, access: Access) -> None:
        """Look at the calendar again and again, without a socket and without a token."""
        transport = httpx.ASGITransport(self._broker.app(access))
        async with httpx.AsyncClient(
            transport=transport, base_url="http://calendar.internal"
        ) as calendar:
            while (answer := await calendar.get("/events")).is_success:
                self.looks, self.events = self.looks + 1, len(answer.json())
                await asyncio.sleep(self._seconds)
        self.told = answer.text
