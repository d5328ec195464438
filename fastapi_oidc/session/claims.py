"""The claims of a session, which an endpoint can read and not change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn


class Claims(dict[str, Any]):
    """A dict that refuses changes: nothing stores them, so they would be lost in silence."""

    def __reduce__(self) -> tuple[type[Claims], tuple[dict[str, Any]]]:
        """How `copy` and `pickle` make another one."""
        return Claims, (dict(self),)

    if not TYPE_CHECKING:  # type checkers know a dict

        def __setitem__(self, *_: object, **__: object) -> NoReturn:
            """Raises TypeError."""
            raise TypeError(
                "a session has no place for data of the application: its claims are those of the "
                "ID token. Store data in a database, by session.issuer and session.sub"
            )

        __delitem__ = __ior__ = __setitem__
        update = setdefault = pop = popitem = clear = __setitem__
