"""What is asked of a store of endings, whatever it can."""

from __future__ import annotations

import pytest

from fastapi_oidc.clock import Clock
from fastapi_oidc.errors import Code, ConfigurationError, SessionError
from fastapi_oidc.session.ending_records import EndingRecords
from fastapi_oidc.session.endings import RevocationRecord
from fastapi_oidc.session.memory import MemoryRevocationStore
from fastapi_oidc.session.model import EndReason, Identity, OIDCSession
from fastapi_oidc.session.stores import RevocationStore
from tests.oidc.protocol.examples import refused
from tests.oidc.session.examples import NOW, a_record, a_session
from tests.oidc.session.plain_stores import PlainRevocationStore

CLOCK = Clock(read=lambda: NOW)


class Wrapped(MemoryRevocationStore):
    """One of an application's own, which asks more than what was recorded."""

    async def is_revoked(self, session: OIDCSession[Identity], /) -> bool:
        return session.sub == "bob" or await super().is_revoked(session)


class Down(MemoryRevocationStore):
    async def ended_by(self, session: OIDCSession[Identity], /) -> EndReason | None:
        raise ConnectionError

    async def revoke(self, record: RevocationRecord, /) -> None:
        raise ConnectionError


@pytest.mark.parametrize("kind", [MemoryRevocationStore, Wrapped])
async def test_the_reason_is_the_one_that_was_recorded(kind: type[MemoryRevocationStore]) -> None:
    records = EndingRecords(kind(clock=CLOCK))
    assert await records.reason(a_session()) is None
    await records.keep(a_record(made_by="application"))
    assert await records.reason(a_session()) == "revoked"
    assert await records.reason(a_session(sid="op-session-2")) is None


class Counting(MemoryRevocationStore):
    """Counts its questions."""

    asked = 0

    async def is_revoked(self, session: OIDCSession[Identity], /) -> bool:
        self.asked += 1
        return await super().is_revoked(session)

    async def ended_by(self, session: OIDCSession[Identity], /) -> EndReason | None:
        self.asked += 1
        return self.reason(session)


async def test_a_store_that_tells_reasons_is_asked_once() -> None:
    store = Counting(clock=CLOCK)
    records = EndingRecords(store)
    await records.keep(a_record())
    assert await records.reason(a_session()) == "ended_by_provider"
    assert store.asked == 1


async def test_what_a_store_of_ones_own_says_beyond_its_records_is_the_providers_word() -> None:
    records = EndingRecords(Wrapped(clock=CLOCK))
    assert await records.reason(a_session(sub="bob")) == "ended_by_provider"


async def test_a_store_that_fails_decides_nothing() -> None:
    records = EndingRecords(Down(clock=CLOCK))
    with refused(Code.SESSION_REVOCATION_UNAVAILABLE, SessionError):
        await records.reason(a_session())
    with refused(Code.SESSION_REVOCATION_UNAVAILABLE, SessionError):
        await records.keep(a_record())


async def test_without_a_store_nothing_has_ended_and_nothing_can_be_kept() -> None:
    records = EndingRecords(None)
    assert (records.are_kept, records.keeps_session_ids) == (False, False)
    assert await records.reason(a_session()) is None
    with refused(Code.CONFIGURATION_STORE_MISSING, ConfigurationError):
        await records.keep(a_record())


@pytest.mark.parametrize(
    ("store", "keeps"), [(PlainRevocationStore(), False), (MemoryRevocationStore(), True)]
)
def test_a_store_with_ended_by_keeps_the_end_of_one_session(
    store: RevocationStore, keeps: bool
) -> None:
    assert EndingRecords(store).keeps_session_ids is keeps
