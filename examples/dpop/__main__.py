"""`python -m examples.dpop`: the application and a provider for it, until Ctrl-C.

The API is the provider's UserInfo, which checks the proofs.
"""

import os
import secrets
import socket

import uvicorn

from examples.dpop.application import create_app
from fastapi_oidc import OIDCSettings
from fastapi_oidc.testing import DevClient, DevProvider, DevUser


def main() -> None:
    """Serve, and say what to open."""
    listener = socket.create_server(("127.0.0.1", int(os.environ.get("PORT", "8000"))))
    origin, secret = f"http://127.0.0.1:{listener.getsockname()[1]}", secrets.token_urlsafe(32)
    client = DevClient(
        client_id="app",
        client_secret=secret,
        redirect_uris=[f"{origin}/auth/callback"],
        dpop_bound_access_tokens=True,
    )
    with DevProvider(users=[DevUser("alice", "Alice")], clients=[client]).serve() as issuer:
        settings = OIDCSettings(
            issuer=issuer,
            client_id="app",
            client_secret=secret,
            cookie_secret=secrets.token_urlsafe(32),
            base_url=origin,
            allow_insecure_http=True,
            dpop=True,
        )
        app = create_app(settings, f"{issuer}/userinfo")
        print(f"Open {origin}/ and sign in: only the call with a proof is answered", flush=True)
        uvicorn.Server(uvicorn.Config(app, log_level="warning")).run([listener])


if __name__ == "__main__":
    main()
