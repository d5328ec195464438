"""A callback that expects something else is refused when it is given."""

from __future__ import annotations

from functools import partial, wraps
from typing import Any

import pytest

from fastapi_oidc import ConfigurationError, IdentityContext, StandardIdentity
from fastapi_oidc.web.unawaited import require_takes
from tests.oidc.world import make_world


def of_two(claims: Any, user_info: Any) -> StandardIdentity:
    return StandardIdentity(sub=claims["sub"] + user_info["sub"])


async def of_none() -> None: ...


def of_one(page: Any) -> None: ...


@pytest.mark.parametrize(
    ("option", "callback", "said"),
    [
        ("resolve_identity", of_two, "is called with (IdentityContext), and takes (claims: "),
        ("before_session_persist", of_none, "is called with (PersistContext), and takes ()"),
        ("load_request_data", of_two, "is called with (RequestDataContext), and takes (claims"),
        ("create_public_session", of_none, "is called with (PublicSessionContext), and takes"),
        ("render_page", of_one, "is called with (Request, Page), and takes (page: "),
        ("before_session_persist", "approve", "is a function, not str"),
    ],
)
def test_a_callback_of_something_else_is_refused(option: str, callback: Any, said: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        make_world(**{option: callback})
    assert f"{option} {said}" in str(refused.value)


def of_everything(*anything: str, **named: str) -> None: ...


@wraps(of_two)
def decorated(*given: Any) -> StandardIdentity:
    return of_two(given[0], {"sub": "injected"})


async def check(*_: object) -> bool:
    return True


class Local:
    """A class whose methods have names of parameters."""

    def __init__(self, check: Any) -> None: ...

    def method(self, check: Any) -> bool:
        return check() and True


def of_nested(page: Any) -> Any:
    def inner(check: Any) -> bool:
        return check() and True

    return inner, [check for check in page if check() and True]


def of_rebound(page: Any) -> Any:
    page = page.sub
    return page.check() and True


FITTING: list[Any] = [of_one, of_everything, partial(of_two, {}), decorated, None, print, type]
FITTING += [Local, of_nested, of_rebound, lambda page: all(check() for check in page)]


@pytest.mark.parametrize("callback", FITTING)
def test_what_may_fit_is_accepted(callback: Any) -> None:
    require_takes("callback", callback, IdentityContext)
