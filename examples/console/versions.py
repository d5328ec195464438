"""Releases of the monitor, and which release added a model, a member or a call."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, TypeAlias

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
    """The first release with a model, or with a member of it, as its description says."""
    if member in (later := getattr(model, "later_fields", {})):  # the client is for an older one
        return version_of(later[member])
    field = model.model_fields.get(member)
    words = (field.description if field else "") if member else (model.__doc__ or "")
    found = _SINCE.search(words or "")
    return version_of(found[1]) if found else ANY


def is_known(model: type[ApiModel]) -> bool:
    """Whether the client has the model: one for an older release has a name without members."""
    return not hasattr(model, "since")


def in_words(version: Version) -> str:
    """The release as text."""
    return ".".join(map(str, version[:2]))
