"""`python -m fastapi_oidc.testing`: serves a DevProvider for one application until Ctrl-C."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from threading import Event
from urllib.parse import urlsplit

from pydantic import JsonValue

from fastapi_oidc.testing.provider import DevProvider
from fastapi_oidc.testing.registration import DevClient, DevUser
from fastapi_oidc.testing.secrets_file import SavedSecrets, UnusableFile

DEFAULT_PORT = 9400
DEFAULT_APP = "http://127.0.0.1:8000"
DEFAULT_FILE = Path(".dev-provider.json")
DEFAULT_USERS = (
    DevUser("alice", "Alice Example", "alice@example.com", {"roles": ["admin"]}),
    DevUser("bob", "Bob Example", "bob@example.com", {"roles": ["viewer"]}),
)


def main(arguments: Sequence[str] | None = None, *, stop: Event | None = None) -> int:
    """Serve until a signal or `stop` (returns 0); print an error and return 1 on failure."""
    options = _parser().parse_args(arguments)
    try:
        saved = SavedSecrets.read(options.secrets)
        client = _client(options, saved)
        op = DevProvider(users=options.user or DEFAULT_USERS, clients=[client])
        saved.share(op._state.keys, options.secrets)
    except (OSError, UnusableFile) as error:
        print(error, file=sys.stderr)
        return 1
    stopped = stop or Event()
    if stop is None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stopped.set())
    try:
        with op.serve(port=options.port) as issuer:
            print(_told(issuer, client, saved, options), flush=True)
            stopped.wait()
    except OSError as error:
        print(f"port {options.port}: {os.strerror(error.errno or 0)}", file=sys.stderr)
        return 1
    except ModuleNotFoundError as missing:
        print(missing, file=sys.stderr)
        return 1
    return 0


def _client(options: argparse.Namespace, saved: SavedSecrets) -> DevClient:
    routes = options.app + options.prefix
    return DevClient(
        client_id=options.client_id,
        client_secret=options.client_secret or saved.client_secret,
        redirect_uris=[f"{routes}/callback"],
        post_logout_redirect_uris=[f"{routes}/logged-out"],
        backchannel_logout_uri=(
            f"{routes}/backchannel-logout" if options.back_channel_logout else None
        ),
    )


def _told(issuer: str, client: DevClient, saved: SavedSecrets, options: argparse.Namespace) -> str:
    """The lines to paste into the application's terminal, and the users."""
    variables = {
        "OIDC_ISSUER": issuer,
        "OIDC_CLIENT_ID": client.client_id,
        "OIDC_CLIENT_SECRET": client.client_secret,
        "OIDC_COOKIE_SECRET": saved.cookie_secret,
        "OIDC_BASE_URL": options.app,
        "OIDC_ALLOW_INSECURE_HTTP": "true",
    }
    users = ", ".join(user.sub for user in options.user or DEFAULT_USERS)
    lines = [f"export {name}={value}" for name, value in variables.items()]
    return "\n".join(
        [
            f"# DevProvider at {issuer}, for development only: it needs no passwords.",
            f"# Keys and secrets are in {options.secrets.resolve()}; without it, they are new.",
            f"# Users: {users}. Paste these lines where {options.app} is started:",
            *lines,
        ]
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m fastapi_oidc.testing",
        description="An OpenID Provider for development on 127.0.0.1, until Ctrl-C.",
    )
    parser.add_argument("--port", type=int, default=DEFAULT_PORT, help="0: any free port")
    parser.add_argument(
        "--app",
        type=_origin,
        default=DEFAULT_APP,
        metavar="URL",
        help="its address in browsers",
    )
    parser.add_argument("--prefix", default="/auth", help="of the library's routes in the app")
    parser.add_argument("--client-id", default="app")
    parser.add_argument("--client-secret", help="default: that of the file of --secrets")
    parser.add_argument(
        "--back-channel-logout",
        action="store_true",
        help="post logout tokens to the app, which needs a store",
    )
    parser.add_argument(
        "--secrets",
        type=Path,
        default=DEFAULT_FILE,
        metavar="FILE",
        help=f"where keys and secrets are between two starts; default: {DEFAULT_FILE}",
    )
    parser.add_argument(
        "--user",
        action="append",
        type=_user,
        metavar="SUB[:NAME[:EMAIL[:ROLE,ROLE]]]",
        help="may be repeated; default: alice, an admin, and bob, a viewer",
    )
    return parser


def _origin(text: str) -> str:
    address = urlsplit(text)
    if address.scheme not in ("http", "https") or not address.netloc or address.path.strip("/"):
        raise argparse.ArgumentTypeError("scheme and host, as in http://127.0.0.1:8000")
    return text.rstrip("/")


def _user(text: str) -> DevUser:
    sub, name, email, roles = [*text.split(":", 3), "", "", ""][:4]
    if not sub:
        raise argparse.ArgumentTypeError("a user has at least a sub")
    claims: dict[str, JsonValue] = {}
    if roles:
        claims["roles"] = [role for role in roles.split(",") if role]
    return DevUser(sub, name, email or None, claims)


if __name__ == "__main__":
    raise SystemExit(main())
