"""What the application is asked at a login and a refresh, and what it may answer."""

from __future__ import annotations

from typing import Any

import pytest

from fastapi_oidc import (
    Code,
    ConfigurationError,
    IdentityContext,
    OIDCSession,
    PersistContext,
)
from fastapi_oidc.flows.application import Application
from tests.oidc.session.examples import ALICE, NOW, a_session

CLAIMS: dict[str, Any] = {"sub": "alice", "groups": ["staff"]}
USER_INFO: dict[str, Any] = {"sub": "alice", "teams": ["audit"]}


def resolve(context: IdentityContext) -> Any:
    return ALICE


async def test_it_is_given_copies_of_all_that_was_validated() -> None:
    given: list[IdentityContext] = []

    async def changing(context: IdentityContext) -> Any:
        given.append(context)
        lists: list[Any] = [context.id_token_claims["groups"], (context.user_info or {})["teams"]]
        for each in lists:
            each.append("changed")
        return ALICE

    assert await Application(changing).identity_of(CLAIMS, USER_INFO, "access-1") is ALICE
    [context] = given
    assert context.access_token == "access-1"
    assert context.id_token_claims == {"sub": "alice", "groups": ["staff", "changed"]}
    assert context.user_info == {"sub": "alice", "teams": ["audit", "changed"]}
    assert (CLAIMS["groups"], USER_INFO["teams"]) == (["staff"], ["audit"])


async def test_without_user_info_there_is_none() -> None:
    given: list[IdentityContext] = []
    await Application(given.append).identity_of(CLAIMS, None, "access-1")
    assert given == [IdentityContext(CLAIMS, None, "access-1")]


async def test_without_a_last_look_the_session_is_kept_as_it_is() -> None:
    session = a_session()
    assert await Application(resolve).approved(session, "login") is session


@pytest.mark.parametrize("reason", ["login", "refresh"])
async def test_a_last_look_without_an_answer_changes_nothing(reason: Any) -> None:
    looks: list[PersistContext[Any]] = []
    session = a_session()
    assert await Application(resolve, looks.append).approved(session, reason) is session
    assert looks == [PersistContext(session, reason)]


async def answered(answer: object) -> OIDCSession[Any]:
    """What is kept of a session for which the application wants `answer`."""

    async def persist(context: PersistContext[Any]) -> Any:
        return answer

    return await Application(resolve, persist).approved(a_session(), "login")


@pytest.mark.parametrize(
    "changes",
    [
        {"identity": "another"},
        {"claims": {}},
        {"session_state": "another"},
        {"last_seen_at": NOW},
        {"expires_at": a_session().expires_at - 1},
        {},
    ],
)
async def test_it_may_shorten_the_session_and_change_what_it_says(changes: dict[str, Any]) -> None:
    replacement = a_session().model_copy(update=changes)
    assert await answered(replacement) is replacement


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("id", "another"),
        ("issuer", "https://another.test"),
        ("client_id", "another"),
        ("sub", "bob"),
        ("sid", None),
        ("nonce", "another"),
        ("audiences", ("app", "api")),
        ("azp", "app"),
        ("auth_time", NOW),
        ("authenticated_at", NOW - 1),
        ("created_at", NOW - 1),
        ("refreshed_at", NOW),
        ("generation", 1),
        ("expires_at", a_session().expires_at + 1),
    ],
)
async def test_it_may_not_make_another_login_of_it(name: str, value: object) -> None:
    with pytest.raises(ConfigurationError) as caught:
        await answered(a_session().model_copy(update={name: value}))
    assert caught.value.code is Code.CONFIGURATION_INVALID
    assert caught.value.explanation == f"before_session_persist changed {name}"


async def test_all_that_it_may_not_change_is_named() -> None:
    changed = {"sub": "bob", "generation": 1, "expires_at": a_session().expires_at + 1}
    with pytest.raises(ConfigurationError, match="changed sub, generation, expires_at"):
        await answered(a_session().model_copy(update=changed))


async def test_what_is_no_session_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="returned something else") as caught:
        await answered("a session")
    assert caught.value.code is Code.CONFIGURATION_INVALID
