"""Faults of the settings, each with the setting's name as the user wrote it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from fastapi_oidc.errors import Code, ConfigurationError
from fastapi_oidc.peer_names import hint_for

Value = TypeVar("Value")

_OPTION = re.compile(r"[a-z]+(?:_[a-z]+)+")
_SECONDS = (
    "session_lifetime", "idle_timeout", "refresh_margin", "default_access_token_lifetime",
    "clock_drift", "provider_timeout", "callback_timeout", "max_age",
)  # fmt: skip
_KINDS = {
    "tuple_type": "must be a text or a list of texts",
    "string_type": "must be a text",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
}
"""What pydantic's errors about types mean for whoever writes the settings."""

_CODES = frozenset(map(str, Code))


def obeyed(rule: Callable[[], Value]) -> Value:
    """The result of `rule`. Its ConfigurationError becomes one of pydantic's validation errors."""
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
    """One error that lists every fault, without any value.

    `variable` returns the name of an option's environment variable. `unread` says which file may
    have the missing values, and why it was not read. The error has the code of the faults if they
    all have the same code, else configuration.invalid.
    """
    details = error.errors(include_url=False, include_context=False, include_input=False)
    faults = [_fault(detail, options, variable, misspelt or {}) for detail in details]
    codes = {_code(detail) for detail in details}
    explanation = faults[0] if len(faults) == 1 else "\n  ".join(["the settings:", *faults])
    if unread is not None and any(detail["type"] == "missing" for detail in details):
        explanation += f"\n  {unread}"
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
    """The name of another option in the text of a variable's fault, as a variable too."""
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
        yield "is not a setting"
        yield from filter(None, [hint_for(option, options)])
    else:
        yield _KINDS.get(detail["type"]) or detail["msg"].removeprefix("Value error, ")
        if option in _SECONDS and detail["type"].startswith(("int", "float", "greater", "less")):
            yield "in seconds"


def _code(detail: ErrorDetails) -> Code:
    return Code(detail["type"]) if detail["type"] in _CODES else Code.CONFIGURATION_INVALID
