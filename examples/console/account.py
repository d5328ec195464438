"""The signed-in user, what they may do with which machines, and the buttons of their menu."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Final
from urllib.parse import urlsplit

from fastapi import APIRouter, Depends, Form, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict

from examples.console.events import work_for
from examples.console.records import Person
from examples.console.settings import ROLES, Right, RoleSettings
from fastapi_oidc import (
    OIDC,
    Code,
    IdentityContext,
    LogoutOptions,
    OIDCSession,
    SessionError,
    require_auth,
    require_csrf,
)

RIGHTS: Final[tuple[Right, ...]] = ("view", "operate", "administer")
"""Each contains those before it."""


class User(BaseModel):
    """A person with the roles that the OpenID Provider gives them.

    `viewer`, `operator` and `admin` are for all machines; `operator:web-*` is for those whose names
    match the pattern. Other roles mean nothing here.
    """

    model_config = ConfigDict(frozen=True)

    sub: str
    name: str
    roles: tuple[str, ...] = ()

    def may(self, right: Right, machine: str = "") -> bool:
        """Whether the user has the right for a machine; without one, for all."""
        enough = RIGHTS[RIGHTS.index(right) :]
        parts = (role.partition(":") for role in self.roles)
        return any(
            ROLES.get(role) in enough and (not names or fnmatchcase(machine, names))
            for role, _, names in parts
        )

    @property
    def title(self) -> str:
        """The strongest role that the user has for any machine."""
        names = [role.partition(":")[0] for role in self.roles]
        return next((name for name in ("admin", "operator") if name in names), "viewer")

    @property
    def person(self) -> Person:
        """The user as the person of events."""
        return Person(self.sub, self.name)


def identity_resolver(settings: RoleSettings) -> Callable[[IdentityContext], User]:
    """A function that returns the user behind validated provider data.

    UserInfo wins over the ID token.
    """

    def resolve_identity(context: IdentityContext) -> User:
        claims = {**context.id_token_claims, **(context.user_info or {})}
        name = str(claims.get("name") or claims["sub"])
        user = User(sub=str(claims["sub"]), name=name, roles=tuple(roles_in(claims, settings)))
        if settings.everybody_views and not user.may("view"):
            return user.model_copy(update={"roles": (*user.roles, "viewer")})
        return user

    return resolve_identity


def roles_in(claims: Mapping[str, object], settings: RoleSettings) -> Iterator[str]:
    """The roles that the claim gives; a claim that is a text is one value."""
    found: object = claims
    for name in [settings.claim] if settings.claim in claims else settings.claim.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    for value in [found] if isinstance(found, str) else found if isinstance(found, list) else []:
        yield from [str(value)] if settings.given is None else settings.given.get(str(value), ())


SIGNED_OUT_PATH = "/signed-out"


Signed = Annotated[OIDCSession[User], Depends(require_auth)]
"""The session of the user whom the entrance has admitted."""
Posted = Annotated[str, Form()]


def admit(request: Request, user: User) -> None:
    """Lets the user in; what the request does and is refused from now on is recorded as theirs."""
    request.state.user = user
    work_for(user.person)


def oidc_of(request: Request) -> OIDC[User]:
    """The library's object of this console."""
    oidc: OIDC[User] = request.app.state.oidc
    return oidc


async def typed_of(request: Request) -> dict[str, str]:
    """The inputs of the form, without its token."""
    form = await request.form()
    return {name: str(value) for name, value in form.items() if name != "csrf_token"}


Typed = Annotated[dict[str, str], Depends(typed_of)]
CHECKED: Final = [Depends(require_csrf)]
"""Refuses forms that no page of the session has made."""


def for_those_who(right: Right) -> APIRouter:
    """Routes for users with a right: others are refused before anything is looked up or read.

    It is the right for the machine that the path names, or else for all machines.
    """

    async def permitted(request: Request, session: Signed) -> None:
        if not session.identity.may(right, request.path_params.get("machine", "")):
            raise SessionError(Code.SESSION_FORBIDDEN, f"the route needs the right to {right}")

    return APIRouter(dependencies=[Depends(permitted)])


router = APIRouter()
"""The buttons of the menu; every signed-in user may end their own sessions."""


@router.post("/account/sign-out-everywhere", dependencies=CHECKED)
async def sign_out_everywhere(request: Request, session: Signed) -> Response:
    """End all sessions of the user."""
    await oidc_of(request).revoke(sub=session.sub)
    return await oidc_of(request).logout(request, LogoutOptions(return_to=SIGNED_OUT_PATH))


def own_path(text: str) -> str:
    """The path in `text` if it is one of this console; else its first page."""
    parts = urlsplit(text)
    is_own = text.startswith("/") and not parts.netloc and "\\" not in text
    return parts.path if is_own and not parts.path.startswith("//") else "/"
