"""Cached introspection of opaque tokens at the provider (RFC 7662)."""

from __future__ import annotations

import hashlib
from typing import Final

from fastapi_oidc.clock import Clock
from fastapi_oidc.concurrency import SingleFlight
from fastapi_oidc.errors import misconfigured
from fastapi_oidc.protocol.access_token import is_active
from fastapi_oidc.protocol.json import Claims
from fastapi_oidc.provider import Provider
from fastapi_oidc.ttl_cache import TTLCache

MAX_TOKENS: Final = 10_000
"""Maximum number of cached responses of each kind; beyond it, the one that expires first is
evicted. Invented tokens cannot evict the responses for active ones.
"""

INACTIVE_LIFETIME: Final = 5
"""Seconds for which "not active" is cached. Repeated requests with an invalid token do not load the
provider, and a new token that the provider's replicas do not know yet is soon accepted.
"""


class Introspections:
    """Introspects tokens at the provider: one request at a time for each token, then cached.

    `lifetime` is in seconds. A response is never used after its `exp`. The cache contains digests
    of the tokens, not the tokens. Failures are not cached.
    """

    def __init__(self, provider: Provider, clock: Clock, lifetime: int) -> None:
        self._provider, self._clock, self._lifetime = provider, clock, lifetime
        self._active: TTLCache[bytes, Claims] = TTLCache(clock, max_entries=MAX_TOKENS)
        self._inactive: TTLCache[bytes, Claims] = TTLCache(clock, max_entries=MAX_TOKENS)
        self._requests: SingleFlight[bytes, Claims] = SingleFlight()

    async def of(self, token: str) -> Claims:
        """The provider's response for `token`, unchecked; raises ProviderError.

        Raises ConfigurationError when the provider has no such endpoint.
        """
        key = hashlib.sha256(token.encode()).digest()
        known = self._active.get(key) or self._inactive.get(key)
        return known or await self._requests.run(key, lambda: self._ask(key, token))

    async def require_endpoint(self) -> None:
        """Raise ConfigurationError when the provider has no introspection endpoint."""
        if (await self._provider.metadata()).introspection_endpoint is None:
            raise misconfigured(
                "introspect: the provider's metadata has no introspection_endpoint, so the API "
                "can accept no opaque token",
            )

    async def _ask(self, key: bytes, token: str) -> Claims:
        # The time before the request: the response may be older than its arrival.
        asked_at = self._clock.now()
        await self.require_endpoint()
        response = await self._provider.introspect(token)
        responses = self._active if is_active(response) else self._inactive
        responses.set(key, response, expires_at=self._usable_until(response, asked_at))
        return response

    def _usable_until(self, response: Claims, asked_at: int) -> int:
        if not is_active(response):
            return asked_at + min(INACTIVE_LIFETIME, self._lifetime)
        exp = response.get("exp")
        ends = int(exp) if isinstance(exp, int | float) else asked_at
        return min(asked_at + self._lifetime, ends)
