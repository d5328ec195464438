"""A control-plane process that serves one access: its settings come as JSON on standard input."""

from __future__ import annotations

import asyncio
import json
import sys

from fastapi_oidc import OIDC, DownstreamAPI, OIDCSettings
from fastapi_oidc.broker import Access, Broker, Route


async def main() -> None:
    """Say "ready", and serve until standard input ends."""
    told = json.loads(sys.stdin.readline())
    apis = [DownstreamAPI(grant="token_exchange", resource=told["resource"])]
    settings = OIDCSettings(**told["settings"])
    oidc = OIDC(settings, session_store=told["store"], downstream_apis=apis)
    routes = {name: Route(**route) for name, route in told["routes"].items()}
    broker, access = Broker(oidc, routes), Access.model_validate(told["access"])
    async with broker.serve(access, told["path"]):
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)
    await broker.aclose()
    await oidc.aclose()


if __name__ == "__main__":
    asyncio.run(main())
