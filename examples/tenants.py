"""`python -m examples.tenants`: two organizations, each with a provider and a path of its own."""

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Annotated

from fastapi import Depends, FastAPI
from starlette.requests import HTTPConnection

from examples import local
from fastapi_oidc import OIDC, OIDCMiddleware, OIDCSession, OIDCSettings, StandardIdentity
from fastapi_oidc.testing import DevProvider, DevUser

PEOPLE = {"acme": DevUser("alice", "Alice"), "globex": DevUser("carol", "Carol")}


def create_app(registered: Mapping[str, OIDCSettings]) -> FastAPI:
    """An application for the tenants that are `registered`, now or later."""

    async def find(connection: HTTPConnection) -> OIDCSettings | None:
        return registered.get(connection.url.path.split("/")[1])

    oidc = OIDC(find)
    app = FastAPI()
    app.add_middleware(OIDCMiddleware, oidc=oidc)
    app.include_router(oidc.router, prefix="/{registration}/auth")

    @app.get("/{tenant}/")
    async def home(
        tenant: str,
        session: Annotated[OIDCSession[StandardIdentity], Depends(oidc.require_auth)],
    ) -> str:
        """The user's name and tenant."""
        return f"{session.identity.name} at {tenant}"

    return app


def main() -> None:
    """Serve, and print what to try."""
    listener, origin = local.listening()
    with ExitStack() as serving:
        registered: dict[str, OIDCSettings] = {}
        for name, user in PEOPLE.items():
            client = local.client(f"{origin}/{name}/auth")
            issuer = serving.enter_context(DevProvider(users=[user], clients=[client]).serve())
            options = {"name": name, "default_return_path": f"/{name}/"}
            registered[name] = local.settings(issuer, origin, **options)
        told = f"Open {origin}/acme/ and {origin}/globex/"
        local.serve(create_app(registered), listener, told)


if __name__ == "__main__":
    main()
