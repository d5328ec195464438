"""The forms with which a person gives a machine access, and withdraws it."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from examples.console.access import Accesses
from examples.console.account import Signed, for_all, for_those_who
from examples.console.events import recorded
from examples.console.guest import guest_page
from examples.console.guest_console import AHosted
from examples.console.identity import User
from examples.console.pages import page
from examples.console.words import TIMES
from fastapi_oidc import OIDC, Code, SessionError


def routes(oidc: OIDC[User], accesses: Accesses) -> APIRouter:
    """The part of the page that is polled, and its buttons."""
    router, operators = for_all(), for_those_who("operate")

    @router.get("/machines/{machine}/guest/access")
    async def shown(monitor: AHosted, session: Signed) -> HTMLResponse:
        values = {"giving": await accesses.shown(monitor, session), "user": session.identity}
        token = oidc.csrf_token(session)
        return page("access.html", {**values, "monitor": monitor, "csrf_token": token})

    @operators.post("/machines/{machine}/guest/access")
    async def give(request: Request, monitor: AHosted, session: Signed) -> Response:
        form = await request.form()
        oidc.check_csrf_token(session, str(form.get("csrf_token", "")))
        names, time = [str(one) for one in form.getlist("route")], str(form.get("time", ""))
        wanted = f"access to {', '.join(names)[:200]} for {time[:20]}"

        async def act() -> str:
            if not names or not set(names) <= set(accesses.broker.routes) or time not in TIMES:
                raise ValueError("choose what to give, and for how long")
            await accesses.give(session, monitor, names, TIMES[time])
            return f"Gave it {wanted}."

        if refusal := await recorded(monitor.events, f"give it {wanted}", act):
            return await guest_page(oidc, request, monitor, session, refusal=refusal)
        return RedirectResponse(f"/machines/{monitor.name}/guest", 303)

    @router.post("/machines/{machine}/guest/access/withdraw")
    async def withdraw(request: Request, monitor: AHosted, session: Signed) -> Response:
        form, given = await request.form(), accesses.given.get(monitor.key)
        oidc.check_csrf_token(session, str(form.get("csrf_token", "")))
        if given is not None and not given.may_be_withdrawn_by(session.identity, monitor.name):
            raise SessionError(Code.SESSION_FORBIDDEN, "it is another person's access")

        async def act() -> str:
            if given is None or given.access.id != form.get("access"):
                raise ValueError("there is no such access any more")
            await accesses.broker.withdraw(given.access)
            return f"Withdrew the access that {given.by} gave it."

        if refusal := await recorded(monitor.events, "withdraw its access", act):
            return await guest_page(oidc, request, monitor, session, refusal=refusal)
        return RedirectResponse(f"/machines/{monitor.name}/guest", 303)

    router.include_router(operators)
    return router
