"""A coding agent's tool calls: each is a request on the guest's socket, and none has a token."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import httpx

TOOLS = {
    "list_events": ("GET", "/events"),
    "add_event": ("POST", "/events"),
}
"""The tools that the model may call, and the requests that they are."""


async def call_tool(guest: httpx.AsyncClient, name: str, arguments: dict[str, Any]) -> str:
    """The result of a tool, or the sentence with which the broker refuses it."""
    method, path = TOOLS[name]
    answer = await guest.request(method, path, json=arguments or None)
    return answer.text if answer.is_success else f"refused: {answer.text.strip()}"


async def main(socket: str) -> None:
    """Read tool calls from standard input, one JSON object in each line, and print results."""
    transport = httpx.AsyncHTTPTransport(uds=socket)
    async with httpx.AsyncClient(
        transport=transport, base_url="http://calendar.internal", timeout=600
    ) as guest:
        while line := await asyncio.to_thread(sys.stdin.readline):
            call = json.loads(line)
            print(await call_tool(guest, call["tool"], call.get("arguments", {})), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
