"""Faults of the settings, each with the setting's name as the user wrote it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from fastapi_oidc.errors import Code, ConfigurationError, misconfigured
from fastapi_oidc.peer_names import hint_for
from fastapi_oidc.settings.rules import BrokenRule


def configuration_error(
    error: ValidationError, options: Collection[str], variable: Callable[[str], str] = str
) -> ConfigurationError:
    """One error that lists every fault, without any value.

    `variable` returns the name of an option as the user wrote it. The error has the code of the
    faults if they all have the same code, else configuration.invalid.
    """
    faults: list[str] = []
    codes = set[Code]()
    for detail in error.errors(include_url=False, include_input=False):
        option = str(detail["loc"][0]) if detail["loc"] else "settings"
        name = variable(option) if option in options else option
        place = "".join(f"[{step}]" for step in detail["loc"][1:])
        broken = _rule_of(detail, option, options)
        faults.append(f"{name}{place}: {broken.explanation}")
        codes.add(broken.code)
    explanation = faults[0] if len(faults) == 1 else "\n  ".join(["the settings:", *faults])
    if any(fault.endswith("is missing") for fault in faults):
        explanation += f"\n  read: the environment and, by default, {Path('.env').absolute()}"
    code = codes.pop() if len(codes) == 1 else Code.CONFIGURATION_INVALID
    return ConfigurationError(code, explanation, faults=tuple(faults))


def _rule_of(detail: ErrorDetails, option: str, options: Collection[str]) -> ConfigurationError:
    """The error of a rule of this library; one of pydantic has its text."""
    raised = detail.get("ctx", {}).get("error")
    if isinstance(raised, BrokenRule):
        return raised.error
    if detail["type"] == "missing":
        return misconfigured("is missing")
    if detail["type"] == "extra_forbidden":
        hint = hint_for(option, options)
        return misconfigured("is not a setting" + (f", {hint}" if hint else ""))
    return misconfigured(detail["msg"].removeprefix("Value error, "))
