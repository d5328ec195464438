"""What is wrong with the settings, in the words of the person who wrote them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from difflib import get_close_matches
from typing import TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from fastapi_oidc.errors import Code, ConfigurationError

Value = TypeVar("Value")

_OPTION = re.compile(r"[a-z]+(?:_[a-z]+)+")
_CODES = frozenset(map(str, Code))


def obeyed(rule: Callable[[], Value]) -> Value:
    """The value of `rule`; its ConfigurationError becomes one fault beside the others."""
    try:
        return rule()
    except ConfigurationError as error:
        context = {"explanation": error.explanation}
        raise PydanticCustomError(str(error.code), "{explanation}", context) from None


def configuration_error(
    error: ValidationError,
    options: Collection[str],
    *,
    variable: Callable[[str], str] | None = None,
    misspelt: Mapping[str, str] | None = None,
    unread: str | None = None,
) -> ConfigurationError:
    """One error with every fault, none of which shows a value.

    `variable` gives the name of an option that was not written in code. `unread` is the name of a
    file that may have what is missing. The code is that of the
    faults when they have the same, else configuration.invalid.
    """
    details = error.errors(include_url=False, include_context=False, include_input=False)
    faults = [_fault(detail, options, variable, misspelt or {}) for detail in details]
    codes = {_code(detail) for detail in details}
    explanation = faults[0] if len(faults) == 1 else "\n  ".join(["the settings:", *faults])
    if unread is not None and any(detail["type"] == "missing" for detail in details):
        explanation += f'\n  {unread} is not read: write OIDCSettings(_env_file="{unread}")'
    code = codes.pop() if len(codes) == 1 else Code.CONFIGURATION_INVALID
    return ConfigurationError(code, explanation, faults=tuple(faults))


def _fault(
    detail: ErrorDetails,
    options: Collection[str],
    variable: Callable[[str], str] | None,
    misspelt: Mapping[str, str],
) -> str:
    if not detail["loc"]:
        return detail["msg"]
    option = str(detail["loc"][0])
    name = option if variable is None or option not in options else variable(option)
    place = "".join(f"[{step}]" for step in detail["loc"][1:])
    said = ", ".join(_said(detail, option, name, options, misspelt))
    if variable is not None and name != option:
        said = _OPTION.sub(lambda word: _as_written(word[0], options, variable), said)
    return f"{name}{place}: {said}"


def _as_written(word: str, options: Collection[str], variable: Callable[[str], str]) -> str:
    """The name of another option beside that of a variable, as a variable too."""
    return variable(word) if word in options else word


def _said(
    detail: ErrorDetails,
    option: str,
    name: str,
    options: Collection[str],
    misspelt: Mapping[str, str],
) -> Iterator[str]:
    if detail["type"] == "missing":
        yield "is missing"
        yield from (f"is {wrong} meant?" for wrong, meant in misspelt.items() if meant == name)
    elif detail["type"] == "extra_forbidden":
        yield "is no setting"
        yield from (f"is {meant} meant?" for meant in get_close_matches(option, options, n=1))
    else:
        yield detail["msg"].removeprefix("Value error, ")


def _code(detail: ErrorDetails) -> Code:
    return Code(detail["type"]) if detail["type"] in _CODES else Code.CONFIGURATION_INVALID
