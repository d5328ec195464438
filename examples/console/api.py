"""The API for programs: the changes of the forms, with the same rights and the same trail.

Each change of `CHANGES` is an endpoint, and its body has the inputs of its form by `section.field`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, Final, TypeAlias

from fastapi import APIRouter, Depends, HTTPException, Request, Security
from fastapi.openapi.utils import get_openapi
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel
from pydantic_core import from_json

from examples.console.account import User, admit
from examples.console.carry_out import carry_out
from examples.console.changes import CHANGES, CREATE, CREATE_FROM_SNAPSHOT, Change
from examples.console.creating import created
from examples.console.forms import Field, Section, shown_text
from examples.console.host import Host, Snapshot
from examples.console.hosted import HostedMonitor
from examples.console.images import SNAPSHOTS, delete_one
from examples.console.monitors import NO_ANSWER, Monitor, Monitors
from examples.console.pages import NO_STORE, answer
from examples.console.past import PAGE_EVENTS, ASearch, among
from examples.console.records import Event
from examples.console.routes import viewed
from fastapi_oidc import API, Caller

PREFIX: Final = "/api/v1"
READ, WRITE = "machines:read", "machines:write"
SCOPES: Final = {READ: "See machines", WRITE: "Use and change machines"}
TYPES: Final[Mapping[str, str]] = {"flag": "boolean", "number": "integer", "document": "object"}
Endpoint: TypeAlias = Callable[..., Awaitable[Response]]


class MachineSummary(BaseModel):
    """A machine; `busy` says what is being done with it, by whom and since when."""

    name: str
    id: str
    state: str
    busy: str | None


class Refusal(BaseModel):
    """Why nothing was done; `fields` has a reason for each input that is at fault."""

    refused: str
    fields: Mapping[str, str] = {}


def routes(api: API[User], monitors: Monitors) -> APIRouter:
    """The endpoints, for access tokens of `api`, or for a session."""
    router, outer = APIRouter(prefix=PREFIX, responses=api.responses), APIRouter()
    Reader: TypeAlias = Annotated[Caller[User], Security(api.require_user, scopes=[READ])]

    async def writing(
        request: Request,
        caller: Annotated[Caller[User], Security(api.require_user, scopes=[WRITE])],
    ) -> Caller[User]:
        admit(request, caller.identity)
        return caller

    Writer: TypeAlias = Annotated[Caller[User], Depends(writing)]

    @router.get("/machines", tags=["machines"])
    async def list_machines(caller: Reader) -> list[MachineSummary]:
        """The machines that the caller may view."""
        return [
            summary_of(monitor, known.state or NO_ANSWER)
            for monitor, known in await monitors.states()
            if caller.identity.may("view", monitor.name)
        ]

    @router.get("/machines/{machine}", tags=["machines"])
    async def get_machine(machine: str, caller: Reader) -> MachineSummary:
        """A machine."""
        monitor = viewed(monitors, machine, caller.identity)
        return summary_of(monitor, await monitor.state())

    @router.get("/machines/{machine}/configuration", tags=["machines"])
    async def get_configuration(machine: str, caller: Reader) -> JSONResponse:
        """What the monitor shows of its machine (`GET /vm/config`), without metadata."""
        found = await viewed(monitors, machine, caller.identity).look()
        if found.fault is not None:
            raise HTTPException(409, str(found.fault))
        return JSONResponse(found.configuration.model_dump(mode="json", exclude_none=True))

    @router.get("/events", tags=["events"])
    async def list_events(caller: Reader, search: ASearch) -> list[Event]:
        """The newest events of what the caller may view; those `before` the `id` of an event."""
        search = among(search, monitors, caller.identity)
        return await asyncio.to_thread(monitors.records.events, search, PAGE_EVENTS)

    @router.get("/snapshots", tags=["snapshots"])
    async def list_snapshots(caller: Reader) -> list[Snapshot]:
        """The snapshots of machines that the caller may view, the newest first."""
        if not isinstance(monitors, Host):
            return []
        found = await asyncio.to_thread(monitors.snapshots)
        return [one for one in found if caller.identity.may("view", one.machine_name)]

    @router.delete("/snapshots/{snapshot}", tags=["snapshots"], status_code=204)
    async def delete_snapshot(snapshot: str, caller: Writer) -> Response:
        """Delete a snapshot. Needs the right to administer all machines."""
        host = administered(caller, "delete snapshots")
        return answer(await delete_one(host, SNAPSHOTS, snapshot))

    def administered(caller: Caller[User], verb: str) -> Host:
        """The host, for those who administer all machines; others are refused."""
        if isinstance(monitors, Host) and caller.identity.may("administer"):
            return monitors
        raise HTTPException(403, f"Only an admin may {verb}.")

    def changing(change: Change) -> Endpoint:
        async def endpoint(request: Request, machine: str, caller: Writer) -> Response:
            monitor, user = viewed(monitors, machine, caller.identity), caller.identity
            return answer(await carry_out(monitor, change, await texts_of(request), user))

        return endpoint

    for change in CHANGES.values():
        path = f"/machines/{{machine}}/{change.name}"
        add(router, path, changing(change), change)

    def making(change: Change) -> Endpoint:
        async def endpoint(request: Request, caller: Writer) -> Response:
            host = administered(caller, change.verb)
            return answer(await created(host, change, await texts_of(request)))

        return endpoint

    add(router, "/machines", making(CREATE), CREATE)
    add(router, "/machines-from-snapshots", making(CREATE_FROM_SNAPSHOT), CREATE_FROM_SNAPSHOT)

    @outer.get(f"{PREFIX}/openapi.json", include_in_schema=False)
    async def description() -> JSONResponse:
        document = get_openapi(title="microVM console", version="1", routes=router.routes)
        return JSONResponse(document, headers=NO_STORE)

    outer.include_router(router)
    if api.resource is not None:
        outer.include_router(api.router)
    return outer


def add(router: APIRouter, path: str, endpoint: Endpoint, change: Change) -> None:
    """Adds the endpoint of a change, with its inputs as the body."""
    schema = {"type": "object", "additionalProperties": False, "properties": properties_of(change)}
    body = {"required": False, "content": {"application/json": {"schema": schema}}}
    router.add_api_route(
        path,
        endpoint,
        methods=["POST"],
        name=change.name,
        operation_id=change.name,
        summary=change.title or change.button or change.verb.capitalize(),
        description=f"{change.about} Needs the right to {change.right}.".strip(),
        tags=["changes"],
        status_code=204,
        responses={status: {"model": Refusal} for status in (404, 409, 422, 502, 503)},
        openapi_extra={"requestBody": body} if change.has_inputs else None,
    )


def properties_of(change: Change) -> dict[str, object]:
    """The inputs of a change as members of its body."""
    return {
        f"{section.key}.{one.name}": property_of(section, one)
        for section in change.sections
        for one in section.fields
    }


def property_of(section: Section, field: Field) -> dict[str, object]:
    """An input as JSON Schema; several words are one text, as in the form."""
    about = f"{field.label}. {section.hint(field)}".strip()
    found: dict[str, object] = {"type": TYPES.get(field.kind, "string"), "description": about}
    return found | ({"enum": list(field.choices)} if field.choices else {})


async def texts_of(request: Request) -> dict[str, str]:
    """The body as the texts of a form; 422 for anything but an object."""
    try:
        body: Any = from_json(await request.body() or b"{}")
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise HTTPException(422, "The body must be a JSON object.")
    return {str(name): shown_text(value) for name, value in body.items() if value is not None}


def summary_of(monitor: Monitor, state: str) -> MachineSummary:
    """A machine as the list shows it."""
    operation = monitor.operation if isinstance(monitor, HostedMonitor) else None
    busy = operation.in_words if operation is not None else None
    return MachineSummary(name=monitor.name, id=monitor.key, state=state, busy=busy)
