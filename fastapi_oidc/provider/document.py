"""Documents that a provider publishes, fetched and cached: the metadata and its keys."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Final, Generic, Literal, TypeAlias, TypeVar

from fastapi_oidc.clock import Clock
from fastapi_oidc.concurrency import SingleFlight
from fastapi_oidc.errors import Code, ProviderError
from fastapi_oidc.protocol.client_auth import ClientAuthentication
from fastapi_oidc.protocol.encoding import Claims, CompactJWS
from fastapi_oidc.protocol.jose.keys import ALGORITHMS, JsonWebKeySet, Unverified, verified_claims
from fastapi_oidc.protocol.metadata import ProviderMetadata
from fastapi_oidc.provider.http import HTTPClient, budget, remaining

T = TypeVar("T")

FRESH_LIFETIME: Final = 3600
"""Seconds for which a fetched document is used before it is fetched again."""
STALE_LIFETIME: Final = 24 * 3600
"""Seconds for which the last known document is used while a new one is unavailable."""
STALE_PAUSE: Final = 60
"""Seconds for which the last known document is used after a failed fetch, before the next."""
STALE_PATIENCE: Final = 2.0
"""Maximum seconds that a caller waits for a new document if there is an old one."""
FAILURE_LIFETIME: Final = 5
"""Seconds for which a failed fetch is not repeated."""

_logger = logging.getLogger("fastapi_oidc.provider")


class Document(Generic[T]):
    """Fetches a document when first needed, once for concurrent callers, and caches it.

    `name` is for the log.
    """

    def __init__(
        self, name: str, fetch: Callable[[], Coroutine[object, object, T]], clock: Clock
    ) -> None:
        self._name, self._fetch, self._clock = name, fetch, clock
        self._fetches: SingleFlight[None, T] = SingleFlight()
        self._newest: T | None = None
        self._failure: ProviderError | None = None
        # Seconds since the epoch.
        self._fetched_at = self._failed_at = 0

    async def get(self) -> T:
        """The document: at most an hour old, or a day while a newer one is unavailable.

        Raises the ProviderError of a failed fetch, and provider.unavailable for five seconds
        afterwards.
        """
        newest, age = self._newest, self._clock.now() - self._fetched_at
        if newest is None or not 0 <= age < STALE_LIFETIME:
            return await self._fetch_once()
        return newest if age < FRESH_LIFETIME else await self._fetch_or(newest)

    async def newer_than(self, seen: T, *, min_age: int = 0) -> T:
        """A document fetched after `seen`, or `seen` itself before it is `min_age` seconds old."""
        if self._newest is not None and self._newest is not seen:
            return self._newest
        return seen if self._is_within(min_age, self._fetched_at) else await self._fetch_once()

    async def _fetch_or(self, last_known: T) -> T:
        """A new document if it is available soon, else the last known one."""
        if self._has_failed_within(STALE_PAUSE):
            return last_known
        try:
            # With two stale documents, each call still has half of its time.
            async with asyncio.timeout(min(STALE_PATIENCE, remaining() / 4)):
                return await self._fetch_once()
        except (ProviderError, TimeoutError):
            # The fetch continues without a waiting caller. A failure is logged there.
            return last_known

    async def _fetch_once(self) -> T:
        if (failure := self._failure) is not None and self._has_failed_within(FAILURE_LIFETIME):
            raise ProviderError(
                Code.PROVIDER_UNAVAILABLE,
                f"not tried again within {FAILURE_LIFETIME} s of {failure}",
                **failure.details,
            ) from failure
        return await self._fetches.run(None, self._fetch_and_keep)

    async def _fetch_and_keep(self) -> T:
        try:
            document = await self._fetch()
        except ProviderError as error:
            self._keep_failure(error)
            raise
        self._newest, self._fetched_at, self._failure = document, self._clock.now(), None
        return document

    def _keep_failure(self, error: ProviderError) -> None:
        # A copy: the frames in the original's traceback contain the cookies of a request.
        self._failure = ProviderError(error.code, error.explanation, **error.details)
        self._failed_at = self._clock.now()
        if self._newest is not None and self._is_within(STALE_LIFETIME, self._fetched_at):
            age = self._failed_at - self._fetched_at
            _logger.warning("using the last known %s, %d s old: %s", self._name, age, error.message)

    def _has_failed_within(self, seconds: int) -> bool:
        return self._failure is not None and self._is_within(seconds, self._failed_at)

    def _is_within(self, seconds: int, moment: int) -> bool:
        """Whether `moment` is less than `seconds` ago, and not in the future by a clock change."""
        return 0 <= self._clock.now() - moment < seconds


Sender: TypeAlias = Literal["provider", "anybody"]
"""The origin of a token: a response of the provider, or a request to a public route."""

AssertionAudience: TypeAlias = Literal["issuer", "token_endpoint"]

UNKNOWN_KEY_INTERVAL: Final = 10
"""Minimum age, in seconds, of keys that are fetched again because of tokens in requests."""

_ACCEPT: Final = "application/jwk-set+json, application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """The registration of the client: its authentication, and the OP's signing algorithms.

    `userinfo_algorithms` are for signed UserInfo; None means those of ID tokens.
    """

    authentication: ClientAuthentication
    algorithms: frozenset[str]
    userinfo_algorithms: frozenset[str] | None = None
    assertion_audience: AssertionAudience = "issuer"


@dataclass(frozen=True, slots=True)
class VerifiedToken:
    """A JWT with a valid signature of the OP; its claims are not checked yet."""

    header_typ: str | None
    algorithm: str
    claims: Claims = field(repr=False)


class TokenVerifier:
    """Verifies tokens with the OP's published keys, or with the client secret if HS* is pinned."""

    def __init__(
        self,
        http: HTTPClient,
        metadata: Document[ProviderMetadata],
        clock: Clock,
        registration: Registration,
        timeout: float,
    ) -> None:
        self._http, self._metadata, self._registration = http, metadata, registration
        self._timeout = timeout
        self._keys = Document("keys", self._fetch, clock)

    async def prepare(self) -> None:
        """Make sure that keys are available; raises ProviderError when there are none."""
        if _need_keys(self._registration.algorithms):
            await self._keys.get()

    async def verify(
        self,
        token: str,
        *,
        sender: Sender = "provider",
        algorithms: frozenset[str] | None = None,
        setting: str = "id_token_signing_algorithms",
    ) -> VerifiedToken:
        """The claims of a JWT that the OP signed with one of the pinned `algorithms`.

        The default `algorithms` are those of ID tokens; `setting` is the name of their setting. If
        no key verifies the token, the keys are fetched again, because the OP may have added a key
        or replaced one with the same name (OpenID Connect Core 10.1.1); for a token in a request
        only if they are older than ten seconds. Raises ProtocolViolation (`jws` codes), or
        ProviderError: of unavailable keys, or jws.key_missing when newer keys may verify a token
        that the provider itself has sent.
        """
        secret = self._registration.authentication.client_secret
        jws, own = CompactJWS.parse(token), self._registration.algorithms
        pinned = own if algorithms is None else algorithms

        def verify_with(keys: JsonWebKeySet) -> VerifiedToken:
            claims = verified_claims(
                jws, keys, algorithms=pinned, client_secret=secret, setting=setting
            )
            return VerifiedToken(jws.header.typ, jws.header.alg, claims)

        if not _need_keys(pinned):
            return verify_with(JsonWebKeySet(()))
        with budget(self._timeout):
            return await self._verify(verify_with, sender)

    async def _verify(
        self, verify_with: Callable[[JsonWebKeySet], VerifiedToken], sender: Sender
    ) -> VerifiedToken:
        """Verify with the current keys, else with newer ones.

        A key may sign before all servers of the OP publish it, so the provider's own token under an
        unknown key is a ProviderError (jws.key_missing): it may verify later. In a request it is
        refused: otherwise anybody could make the application answer that the provider is
        unavailable.
        """
        keys = await self._keys.get()
        try:
            return verify_with(keys)
        except Unverified:
            newer = await self._newer(keys, sender)
            if newer is keys:
                raise
        try:
            return verify_with(newer)
        except Unverified as miss:
            if miss.code is Code.JWS_SIGNATURE or sender == "anybody":
                raise
            explanation = f"{miss.explanation}; the provider's keys were fetched again"
            raise ProviderError(miss.code, explanation) from None

    async def _newer(self, keys: JsonWebKeySet, sender: Sender) -> JsonWebKeySet:
        """Newer keys, or `keys`: invented tokens in requests must not cause a stream of fetches."""
        is_own = sender == "provider"
        try:
            return await self._keys.newer_than(keys, min_age=0 if is_own else UNKNOWN_KEY_INTERVAL)
        except ProviderError:
            if is_own:
                raise
            return keys

    async def _fetch(self) -> JsonWebKeySet:
        url = (await self._metadata.get()).jwks_uri
        answer = await self._http.request("GET", url, accept=_ACCEPT)
        return JsonWebKeySet.parse(answer.published_document())


def _need_keys(algorithms: frozenset[str]) -> bool:
    return any(ALGORITHMS[name].key_type != "oct" for name in algorithms)
