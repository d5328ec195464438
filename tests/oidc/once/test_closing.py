"""What was asked for before a shutdown does not begin after it."""

from __future__ import annotations

import pytest

from fastapi_oidc.once import Closed, Closing


async def doubled(number: int) -> int:
    return 2 * number


async def test_what_begins_before_the_shutdown_goes_on() -> None:
    assert await Closing().unless_closed(doubled)(4) == 8


async def test_what_was_asked_for_before_the_end_of_a_shutdown_never_begins() -> None:
    closing = Closing()
    before = closing.unless_closed(doubled)
    with closing.closed():
        meanwhile = closing.unless_closed(doubled)
    for operation in (before, meanwhile):
        with pytest.raises(Closed):
            await operation(4)


async def test_a_start_after_a_shutdown_is_a_start() -> None:
    closing = Closing()
    with closing.closed():
        pass
    assert await closing.unless_closed(doubled)(4) == 8
