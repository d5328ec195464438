"""Scripts that Redis runs, named by their SHA-1 once a server has them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from redis.exceptions import NoScriptError


class Script:
    """A Lua script.

    Not redis-py's: that loads a script on every node of a cluster, one that is down included.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._sha1 = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()

    async def run(self, client: Any, keys: Sequence[str], args: Sequence[str | bytes | int]) -> Any:
        """What the script returns, run where its keys are."""
        try:
            return await client.evalsha(self._sha1, len(keys), *keys, *args)
        except NoScriptError:
            return await client.eval(self._text, len(keys), *keys, *args)
