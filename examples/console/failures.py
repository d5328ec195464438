"""Why something was not done, for users, programs and the trail."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pydantic import ValidationError

from fastapi_oidc import OIDCError
from generated_vmm import VmmApiError, VmmConnectionError, VmmError, VmmTimeoutError
from generated_vmm.machines import MachineBusy, MachineError

CONFLICT: Final = 409


class Failure(Exception):
    """Why something was not done: a sentence, and one for each input at fault (`section.field`).

    `status` is that of the response.
    """

    def __init__(self, status: int, sentence: str, fields: Mapping[str, str] | None = None) -> None:
        super().__init__(sentence)
        self.status, self.sentence, self.fields = status, sentence, fields or {}

    @property
    def why(self) -> str:
        """The reason, with that of the first input."""
        return next(iter(self.fields.values()), self.sentence)


FAILURES: Final = (Failure, OIDCError, VmmError, OSError, ValueError)
"""What an act may raise that was not done."""


def invalid(fields: Mapping[str, str]) -> Failure:
    """The input is not valid."""
    return Failure(422, "Nothing was done: see the marked fields.", fields)


def failed(error: Exception) -> Failure:
    """What one of the `FAILURES` means for users."""
    match error:
        case Failure():
            return error
        case OIDCError():
            return Failure(error.status, error.public_text)
        case MachineBusy():
            status = CONFLICT
        case VmmApiError() | MachineError() | ValueError():
            status = 422
        case VmmError():
            status = 502
        case _:
            status = 507
    return Failure(status, as_sentence(error))


def as_sentence(error: Exception) -> str:
    """The text of an error, as a sentence; the monitor's own words."""
    match error:
        case VmmApiError(fault_message=words) if words:
            text = words
        case VmmTimeoutError():
            text = "the monitor took too long to respond"
        case VmmConnectionError():
            text = "no monitor responds"
        case ValidationError():
            text = error.errors()[0]["msg"].removeprefix("Value error, ")
        case OSError(filename=name, strerror=why) if why:
            text = f"{name}: {why}" if name else why
        case _:
            text = str(error)
    return f"{text[:1].upper()}{text[1:].removesuffix('.')}."
