"""Releases of the monitor, and which release added a model, a member or a call."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, TypeAlias, get_args

from generated_vmm.model import ApiModel

Version: TypeAlias = tuple[int, ...]

ANY: Final[Version] = ()
_SINCE: Final = re.compile(r"\bSince (\d+\.\d+)")


def version_of(text: str) -> Version:
    """`1.14.4` and `1.17.0-dev` as numbers; text without numbers is newer than every release."""
    numbers = re.match(r"v?(\d+)\.(\d+)(?:\.(\d+))?", text)
    return tuple(int(number or 0) for number in numbers.groups()) if numbers else (9999,)


@lru_cache
def since(model: type[ApiModel], member: str = "") -> Version:
    """The first release with a model, or with a member of it, as its description says.

    Raises TypeError for a member that it has in no release.
    """
    if member:
        require(model, [member])
    if member in (later := getattr(model, "later_fields", {})):  # the client is for an older one
        return version_of(later[member].rpartition(", ")[2])
    field = model.model_fields.get(member)
    words = (field.description if field else "") if member else (model.__doc__ or "")
    found = _SINCE.search(words or "")
    return version_of(found[1]) if found else ANY


def is_known(model: type[ApiModel]) -> bool:
    """Whether the client has the model: one for an older release has a name without members."""
    return not hasattr(model, "since")


def require(model: type[ApiModel], paths: Iterable[str]) -> None:
    """Raises TypeError for paths of members that the model neither has nor gets in a newer release.

    A client for an older monitor knows which members come later: those are only not offered.
    """
    if lacking := sorted(path for path in paths if not _has(model, path)):
        raise TypeError(f"{model.__name__} has no {', '.join(lacking)}")


def _has(model: type[ApiModel], path: str) -> bool:
    name, _, rest = path.partition(".")
    if name not in model.model_fields:
        return name in getattr(model, "later_fields", {})
    kind = model.model_fields[name].annotation
    inner = (
        one
        for one in (kind, *get_args(kind))
        if isinstance(one, type) and issubclass(one, ApiModel)
    )
    return not rest or all(_has(one, rest) for one in inner)


def in_words(version: Version) -> str:
    """The release as text."""
    return ".".join(map(str, version[:2]))
