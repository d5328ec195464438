"""An API, the provider that issues its tokens, and a program that calls it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import httpx
from fastapi import Depends, FastAPI, Security
from pydantic import JsonValue

from fastapi_oidc import OIDC, AccessToken, Caller, StandardIdentity
from fastapi_oidc.protocol.dpop import DPoPKey
from fastapi_oidc.testing import DevClient, DevResource
from fastapi_oidc.web.api import API
from tests.oidc.world import BASE_URL, World, client_at, make_world

AUDIENCE = "https://app.test/machines"
MACHINES = f"{BASE_URL}/machines"
METADATA_URL = f"{BASE_URL}/.well-known/oauth-protected-resource/machines"


@dataclass(slots=True)
class APIWorld:
    """Everything a test looks at; `secret` is that of the program."""

    world: World
    api: API[Any]
    secret: str

    async def token(self, scope: str = "machines:read", *, key: DPoPKey | None = None) -> str:
        """An access token that the program gets for itself."""
        url = f"{self.world.op.issuer}/token"
        headers = {} if key is None else {"DPoP": key.proof("POST", url, self.now)}
        form = {"grant_type": "client_credentials", "scope": scope}
        answer = await self.world.browser().post(
            url, data=form, auth=("program", self.secret), headers=headers
        )
        value = answer.json()["access_token"]
        assert isinstance(value, str)
        return value

    async def edited(self, edit: Callable[[dict[str, JsonValue]], dict[str, JsonValue]]) -> str:
        """A token with other claims."""
        self.world.op.edits.put("access_token", edit)
        return await self.token()

    async def with_claims(self, **claims: JsonValue) -> str:
        """A token with `claims`; one that is None is left out."""
        return await self.edited(
            lambda usual: {
                name: claim for name, claim in (usual | claims).items() if claim is not None
            }
        )

    async def get(
        self, token: str, path: str = "/machines", *, scheme: str = "Bearer", **headers: str
    ) -> httpx.Response:
        """A request with a token."""
        return await self.world.browser().get(
            path, headers={"Authorization": f"{scheme} {token}", **headers}
        )

    @property
    def now(self) -> int:
        return int(self.world.time())


def make_api_world(
    *,
    token_format: str = "jwt",
    mount: Callable[[FastAPI, OIDC[Any, Any], API[Any]], None] | None = None,
    settings: dict[str, Any] | None = None,
    provider: dict[str, Any] | None = None,
    world: dict[str, Any] | None = None,
    more_clients: Sequence[DevClient] = (),
    **options: Any,
) -> APIWorld:
    """An application with an API, and the program `program` registered at its provider."""
    program, app = (
        client_at(client_id=name, access_token_format=token_format, audience=AUDIENCE)
        for name in ("program", "app")
    )
    made: list[API[Any]] = []

    def mount_all(application: FastAPI, oidc: OIDC[Any, Any]) -> None:
        api = oidc.api(options.pop("audience", AUDIENCE), **options)
        made.append(api)
        if api.resource is not None:
            application.include_router(api.router)
        _mount_machines(application, oidc, api)
        if mount is not None:
            mount(application, oidc, api)

    resource = DevResource(AUDIENCE, ["machines:read", "machines:write"])
    described = {"clients": [program, app, *more_clients], "resources": [resource]}
    made_world = make_world(
        settings={"client_secret": app.client_secret} | (settings or {}),
        provider=described | (provider or {}),
        mount=mount_all,
        **(world or {}),
    )
    return APIWorld(made_world, made[0], program.client_secret or "")


def _mount_machines(app: FastAPI, oidc: OIDC[Any, Any], api: API[Any]) -> None:
    @app.get("/machines")
    async def read(token: Annotated[AccessToken, Depends(api.require("machines:read"))]) -> object:
        return {"sub": token.sub, "client_id": token.client_id, "scope": token.scope}

    @app.post("/machines")
    async def write(
        token: Annotated[AccessToken, Depends(api.require("machines:write"))],
    ) -> object:
        return {"sub": token.sub}

    @app.get("/roles")
    async def operate(
        token: Annotated[AccessToken, Depends(api.require(role="operator"))],
    ) -> object:
        return {"roles": token.roles}

    @app.post("/either/machines")
    async def add(
        caller: Annotated[
            Caller[StandardIdentity], Security(oidc.require_user, scopes=["machines:write"])
        ],
    ) -> str:
        return caller.identity.sub

    @app.post("/either", operation_id="change")
    @app.get("/either")
    async def either(
        caller: Annotated[Caller[StandardIdentity], Depends(oidc.require_user)],
    ) -> object:
        return {
            "sub": caller.identity.sub,
            "by": "session" if caller.session else "token",
            "token": caller.access_token and caller.access_token.client_id,
        }
