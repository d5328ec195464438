"""Documents and keys of a provider: when they are fetched, and how long they serve."""

import asyncio

import pytest

from fastapi_oidc.clock import Clock
from fastapi_oidc.errors import Code, ProtocolViolation, ProviderError
from fastapi_oidc.provider.document import Document
from fastapi_oidc.provider.http import budget
from fastapi_oidc.provider.provider import Provider
from tests.oidc.protocol.examples import refused
from tests.oidc.provider.documents import Source, down
from tests.oidc.provider.op import OP, SigningKey
from tests.oidc.world import Time


@pytest.mark.parametrize(("seconds", "fetches"), [(3599, 1), (3600, 2), (-1, 2)])
async def test_a_value_is_kept_for_an_hour(
    document: Document[str], source: Source, time: Time, seconds: int, fetches: int
) -> None:
    await document.get()
    time.now += seconds
    await document.get()
    assert source.fetches == fetches


async def test_a_hundred_first_callers_fetch_once(document: Document[str], source: Source) -> None:
    values = await asyncio.gather(*(document.get() for _ in range(100)))
    assert set(values) == {"value 1"}


async def test_a_failure_is_not_tried_again_for_five_seconds(
    document: Document[str], source: Source, time: Time
) -> None:
    source.error = down()
    with refused(Code.PROVIDER_UNREACHABLE, ProviderError):
        await document.get()
    time.now += 4
    with pytest.raises(ProviderError) as second:
        await document.get()
    assert second.value.code == Code.PROVIDER_UNAVAILABLE
    assert second.value.details == {"url": "https://op.test/"}
    assert second.value.__cause__ is not source.error, "whose traceback has the first request"
    assert source.fetches == 1
    time.now += 1
    source.error = None
    assert await document.get() == "value 2"


async def test_strangers_use_no_fetch_and_a_value_that_others_renewed_is_used(
    document: Document[str], source: Source, time: Time
) -> None:
    seen = await document.get()
    time.now += 9
    assert await document.newer_than(seen, min_age=10) is seen
    newer = await document.newer_than(seen)
    assert await document.newer_than(seen) is newer
    time.now += 10
    assert await document.newer_than(newer, min_age=10) == "value 3"


async def aged(document: Document[str], source: Source, time: Time, seconds: int) -> None:
    """A document fetched so many seconds ago, whose source is down."""
    await document.get()
    time.now += seconds
    source.error = down()


async def test_while_it_serves_a_new_one_is_tried_once_a_minute_and_told_of_in_the_log(
    document: Document[str], source: Source, time: Time, caplog: pytest.LogCaptureFixture
) -> None:
    await aged(document, source, time, 3600)
    for _ in range(60):
        assert await document.get() == "value 1"
        time.now += 1
    assert source.fetches == 2
    [record] = caplog.records
    assert record.name == "fastapi_oidc.provider"
    message = "using the last known keys, 3600 s old: ConnectError (url=https://op.test/)"
    assert record.getMessage() == message
    source.error = None
    assert await document.get() == "value 3"


async def test_a_slow_source_keeps_nobody_waiting_who_has_a_last_known_document(time: Time) -> None:
    answer = asyncio.Event()
    values = iter(["old", "new"])

    async def fetch() -> str:
        value = next(values)
        if value == "new":
            await answer.wait()
        return value

    document = Document("keys", fetch, Clock(read=time))
    assert await document.get() == "old"
    time.now += 3600
    with budget(0):
        assert await document.get() == "old"
    answer.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert await document.get() == "new"


async def test_a_clock_that_is_set_back_neither_keeps_a_document_nor_a_failure(
    document: Document[str], source: Source, time: Time
) -> None:
    source.error = down()
    with pytest.raises(ProviderError):
        await document.get()
    source.error = None
    time.now -= 24 * 3600
    assert await document.get() == "value 2"
    time.now -= 24 * 3600
    assert await document.get() == "value 3"


CLAIMS = {"sub": "alice"}


@pytest.fixture
def old() -> SigningKey:
    return SigningKey("old")


@pytest.fixture
def new() -> SigningKey:
    return SigningKey("new")


async def code_of(provider: Provider, token: str) -> Code:
    """The code of the refusal of a token in a request."""
    with pytest.raises(ProtocolViolation) as caught:
        await provider.verify(token, sender="anybody")
    return caught.value.code


async def test_a_flood_of_tokens_makes_no_flood_of_requests(op: OP, old: SigningKey) -> None:
    provider = op.provider()
    op.publish([old])
    damaged = old.sign(CLAIMS)[:-4] + "AAAA"
    for seconds in (0, 9, 1):
        op.now += seconds
        for number in range(20):
            invented = SigningKey(f"invented-{number}").sign(CLAIMS)
            assert await code_of(provider, invented) == Code.JWS_KEY_MISSING
        assert await code_of(provider, damaged) == Code.JWS_SIGNATURE
    assert op.asked("/jwks") == 2


async def test_a_token_by_a_new_key_naming_the_old_is_verified(op: OP, old: SigningKey) -> None:
    """Ory Hydra names the key of the login in refreshed ID tokens."""
    signer = SigningKey("old")
    published = SigningKey("new")
    published.jwk["x"] = signer.jwk["x"]
    provider = op.provider()
    op.publish([old])
    await provider.verify(old.sign(CLAIMS))
    op.publish([old, published])
    assert (await provider.verify(signer.sign(CLAIMS))).claims == CLAIMS
    assert op.asked("/jwks") == 2


async def test_a_withdrawn_key_is_forgotten_later(op: OP, old: SigningKey, new: SigningKey) -> None:
    provider = op.provider()
    op.publish([old])
    await provider.verify(old.sign(CLAIMS))
    op.publish([new])
    op.now += 3600
    assert await code_of(provider, old.sign(CLAIMS)) == Code.JWS_KEY_MISSING


async def test_an_unpublished_key_is_no_violation(op: OP, old: SigningKey, new: SigningKey) -> None:
    provider = op.provider()
    op.publish([old])
    with pytest.raises(ProviderError, match="were fetched again") as caught:
        await provider.verify(new.sign(CLAIMS))
    assert caught.value.code is Code.JWS_KEY_MISSING
    op.answer("/jwks", {}, status=503)
    with refused(Code.PROVIDER_STATUS, ProviderError):
        await provider.verify(new.sign(CLAIMS))
    op.publish([old, new])
    op.now += 5
    assert (await provider.verify(new.sign(CLAIMS))).claims == CLAIMS
