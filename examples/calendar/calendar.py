"""The calendar: a third party's API, which introspects each token at the provider."""

from typing import Annotated, Any

import httpx
from fastapi import Body, Depends, FastAPI, HTTPException, Request

RESOURCE = "https://calendar.example"
SCOPE = "events"
CLIENT_ID = "calendar"

EVENTS = {"alice": ["9:00 Stand-up", "12:30 Lunch with Bob"], "bob": ["12:30 Lunch with Alice"]}


def calendar_api(issuer: str, secret: str, transport: httpx.AsyncBaseTransport | None) -> FastAPI:
    """The API; it introspects tokens at `issuer` (RFC 7662), over `transport` in tests."""
    api, kept = FastAPI(title="Calendar"), {sub: [*events] for sub, events in EVENTS.items()}

    async def user(request: Request) -> str:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        claims: dict[str, Any] = {}
        if scheme == "Bearer":
            async with httpx.AsyncClient(transport=transport, auth=(CLIENT_ID, secret)) as http:
                response = await http.post(f"{issuer}/introspect", data={"token": token})
                claims = response.raise_for_status().json()
        if not claims.get("active") or claims.get("aud") != RESOURCE:
            challenge = {"WWW-Authenticate": 'Bearer error="invalid_token"'}
            raise HTTPException(401, "no valid token for the calendar", challenge)
        return str(claims["sub"])

    @api.get("/events")
    async def events(sub: Annotated[str, Depends(user)]) -> list[str]:
        return kept.get(sub, [])

    @api.post("/events")
    async def add(sub: Annotated[str, Depends(user)], event: Annotated[str, Body()]) -> list[str]:
        kept.setdefault(sub, []).append(event)
        return kept[sub]

    return api
