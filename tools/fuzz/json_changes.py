"""Changes JSON as JSON, so that what is made up passes the parser and meets the rules behind it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from random import Random
from typing import Any, Final, TypeAlias

Place: TypeAlias = tuple[Any, Any]
"""A list or an object, and the index or the name of one of its values."""

ODD: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, -1, 0.5, 1e308, 2**63, 1_800_000_000, float("nan")),
    *("", " ", "\0", "\ud800", "é", "1", "none", "https://op.test/", "x" * 300, [], {}, [[]], [""]),
)
"""Values that some rule may not have thought of."""


def changed(data: bytes, chance: Random) -> bytes | None:
    """`data` with one value of an object in it changed; None when there is none at the place that
    `chance` names. What stands before and behind the object stays, such as a header."""
    text = data.decode("utf-8", "surrogateescape")
    starts = [place for place, character in enumerate(text) if character == "{"]
    if not starts:
        return None
    start = chance.choice(starts)
    try:
        document, end = json.JSONDecoder().raw_decode(text, start)
        _change(document, chance)
        written = json.dumps(document)
    except (ValueError, RecursionError):
        return None
    return f"{text[:start]}{written}{text[end:]}".encode("utf-8", "surrogateescape")


def _change(document: Any, chance: Random) -> None:
    places = list(_places(document))
    if not places:
        document[chance.choice(("sub", "exp", "keys", ""))] = chance.choice(ODD)
        return
    container, key = chance.choice(places)
    other, other_key = chance.choice(places)
    value = container[key]
    container[key] = chance.choice(
        (
            *(deepcopy(chance.choice(ODD)), deepcopy(other[other_key])),
            *([value], {"a": value}, [value, deepcopy(value)], _edited(value, chance)),
        )
    )
    if isinstance(container, dict) and chance.random() < 0.2:
        moved = container.pop(key)
        if isinstance(other, dict) and chance.random() < 0.5:
            other[other_key] = moved


def _places(document: Any) -> Iterator[Place]:
    """Every value in `document`, however deep, without recursion."""
    open_containers = [document]
    while open_containers:
        container = open_containers.pop()
        keys = list(container) if isinstance(container, dict) else range(len(container))
        for key in keys:
            yield container, key
            if isinstance(container[key], dict | list):
                open_containers.append(container[key])


def _edited(value: Any, chance: Random) -> Any:
    """A text that is a little longer or shorter, a number that is a little more or less."""
    if isinstance(value, str):
        place = chance.randint(0, len(value))
        return (
            value[:place] + chance.choice(("", "/", "\n", "%", "é", ".", "=")) + value[place + 1 :]
        )
    if isinstance(value, int | float):
        return value + chance.choice((-61, -1, 1, 61, 0.5))
    return None
