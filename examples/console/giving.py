"""The forms with which a person gives a machine access, and withdraws it."""

from __future__ import annotations

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from examples.console.access import Accesses
from examples.console.account import CHECKED, Posted, Signed, for_all, for_those_who, oidc_of
from examples.console.events import Done, recorded
from examples.console.guest import require_shown
from examples.console.guest_console import AHosted
from examples.console.pages import page
from examples.console.view import AVisit, machine_page
from examples.console.words import TIMES
from fastapi_oidc import Code, SessionError


def routes(accesses: Accesses) -> APIRouter:
    """The part of the page that is polled, and its buttons."""
    router, operators = for_all(), for_those_who("operate")

    @router.get("/machines/{machine}/guest/access")
    async def shown(
        request: Request, monitor: AHosted, session: Signed, machine_id: str
    ) -> HTMLResponse:
        if machine_id != monitor.key:  # else an earlier machine's page would get its form
            raise HTTPException(410, "The page is of an earlier machine of this name.")
        values = {"giving": await accesses.shown(monitor, session), "user": session.identity}
        token = oidc_of(request).csrf_token(session)
        return page("access.html", {**values, "monitor": monitor, "csrf_token": token})

    @operators.post("/machines/{machine}/guest/access", dependencies=CHECKED)
    async def give(monitor: AHosted, visit: AVisit) -> Response:
        form = await visit.request.form()
        names, time = [str(one) for one in form.getlist("route")], str(form.get("time", ""))
        wanted = f"access to {', '.join(names)[:200]} for {time[:20]}"

        async def act() -> Done:
            require_shown(monitor, form.get("machine_id"))
            if not names or not set(names) <= set(accesses.broker.routes) or time not in TIMES:
                raise ValueError("choose what to give, and for how long")
            await accesses.give(visit.session, monitor, names, TIMES[time])
            return Done(f"Gave it {wanted}.")

        if failure := await recorded(monitor.events, f"give it {wanted}", act):
            return await machine_page(monitor, visit, "guest", failure=failure)
        return RedirectResponse(f"/machines/{monitor.name}/guest", 303)

    @router.post("/machines/{machine}/guest/access/withdraw", dependencies=CHECKED)
    async def withdraw(monitor: AHosted, visit: AVisit, access: Posted = "") -> Response:
        user, given = visit.session.identity, accesses.given.get(monitor.key)
        if given is not None and not given.may_be_withdrawn_by(user, monitor.name):
            raise SessionError(Code.SESSION_FORBIDDEN, "it is another person's access")

        async def act() -> Done:
            if given is None or given.access.id != access:
                raise ValueError("there is no such access any more")
            await accesses.broker.withdraw(given.access)
            return Done(f"Withdrew the access that {given.by} gave it.")

        if failure := await recorded(monitor.events, "withdraw its access", act):
            return await machine_page(monitor, visit, "guest", failure=failure)
        return RedirectResponse(f"/machines/{monitor.name}/guest", 303)

    router.include_router(operators)
    return router
