"""Front-channel logout: the page after a logout loads one frame for each client."""

import re
from dataclasses import replace
from html import unescape

from tests.oidc.testing.bare_client import AFTER_LOGOUT, APP, BareClient, bare_client, jwt_parts

FRAMED = replace(
    APP,
    frontchannel_logout_uri="https://app.test/front?a=1",
    frontchannel_logout_session_required=True,
)


def frames(page: str) -> list[str]:
    return [unescape(url) for url in re.findall(r'<iframe src="([^"]*)"', page)]


async def end_session(rp: BareClient, **changes: str) -> tuple[str, str, str]:
    """The page, its policy, and the `sid` that has ended."""
    id_token = (await rp.tokens())["id_token"]
    answer = await rp.http.get("/end-session", params={"id_token_hint": id_token, **changes})
    return (
        answer.text,
        answer.headers["content-security-policy"],
        str(jwt_parts(id_token)[1]["sid"]),
    )


async def test_a_frame_names_issuer_and_session() -> None:
    rp = bare_client(FRAMED)
    page, policy, sid = await end_session(rp)
    assert frames(page) == [f"https://app.test/front?a=1&iss=https%3A%2F%2Fop.test&sid={sid}"]
    assert "frame-src https://app.test;" in policy


async def test_without_session_required_it_names_none() -> None:
    rp = bare_client(replace(FRAMED, frontchannel_logout_session_required=False))
    page, _, _ = await end_session(rp)
    assert frames(page) == ["https://app.test/front?a=1"]


async def test_the_frames_come_before_the_redirect() -> None:
    rp = bare_client(FRAMED)
    page, _, _ = await end_session(rp, post_logout_redirect_uri=AFTER_LOGOUT)
    assert len(frames(page)) == 1
    assert re.search(rf'content="\d;url={AFTER_LOGOUT}"', page)


async def test_a_client_without_the_uri_has_no_frame(rp: BareClient) -> None:
    page, policy, _ = await end_session(rp)
    assert frames(page) == []
    assert "frame-src" not in policy
