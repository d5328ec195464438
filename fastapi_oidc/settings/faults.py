"""Faults of the settings, each with the setting's name as the user wrote it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from fastapi_oidc.errors import Code, ConfigurationError
from fastapi_oidc.peer_names import hint_for
from fastapi_oidc.settings.rules import BrokenRule

_OF_NUMBERS = ("int_", "float_", "greater_", "less_")
"""How pydantic's faults of numbers begin: each number among the settings has a unit."""


def configuration_error(
    error: ValidationError,
    options: Collection[str],
    *,
    variable: Callable[[str], str] = str,
    misspelt: Mapping[str, str] | None = None,
    unread: str | None = None,
) -> ConfigurationError:
    """One error that lists every fault, without any value.

    `variable` returns the name of an option as the user wrote it. `unread` says which file may have
    the missing values, and why it was not read. The error has the code of the faults if they all
    have the same code, else configuration.invalid.
    """
    details = error.errors(include_url=False, include_input=False)
    faults = [_fault(detail, options, variable, misspelt or {}) for detail in details]
    codes = {_rule_of(detail).code for detail in details}
    explanation = faults[0] if len(faults) == 1 else "\n  ".join(["the settings:", *faults])
    if unread is not None and any(detail["type"] == "missing" for detail in details):
        explanation += f"\n  {unread}"
    code = codes.pop() if len(codes) == 1 else Code.CONFIGURATION_INVALID
    return ConfigurationError(code, explanation, faults=tuple(faults))


def _rule_of(detail: ErrorDetails) -> ConfigurationError:
    """The error of a rule of this library; one of pydantic has its text."""
    raised = detail.get("ctx", {}).get("error")
    if isinstance(raised, BrokenRule):
        return raised.error
    return ConfigurationError(
        Code.CONFIGURATION_INVALID, detail["msg"].removeprefix("Value error, ")
    )


def _fault(
    detail: ErrorDetails,
    options: Collection[str],
    variable: Callable[[str], str],
    misspelt: Mapping[str, str],
) -> str:
    if not detail["loc"]:
        return detail["msg"]
    option = str(detail["loc"][0])
    name = variable(option) if option in options else option
    place = "".join(f"[{step}]" for step in detail["loc"][1:])
    return f"{name}{place}: {', '.join(_said(detail, option, name, options, misspelt))}"


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
        yield _rule_of(detail).explanation
        if detail["type"].startswith(_OF_NUMBERS):
            bytes_or_seconds = "bytes" if option == "max_cookie_size" else "seconds (a day: 86400)"
            yield f"the number of {bytes_or_seconds}"
