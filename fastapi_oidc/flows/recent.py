"""A memory of the last minute."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

from fastapi_oidc.clock import Clock

Value = TypeVar("Value")


class Recent(Generic[Value]):
    """Remembers each value for `lifetime` seconds from when it was last put."""

    def __init__(self, clock: Clock, lifetime: int) -> None:
        self._clock, self._lifetime = clock, lifetime
        self._values: OrderedDict[str, tuple[int, Value]] = OrderedDict()

    def put(self, name: str, value: Value) -> None:
        """Remembers `value` under `name`, and forgets what is too old."""
        now = self._clock.now()
        self._values[name] = (now + self._lifetime, value)
        self._values.move_to_end(name)
        while next(iter(self._values.values()))[0] <= now:
            self._values.popitem(last=False)

    def get(self, name: str) -> Value | None:
        """What was put under `name` lately."""
        ends_at, value = self._values.get(name, (0, None))
        return value if self._clock.now() < ends_at else None
