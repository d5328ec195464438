"""What the monitor of a client's version does not have: its names import, and say so when used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Self

from pydantic import ValidationInfo, model_validator

from generated_vmm.errors import VmmError
from generated_vmm.model import ApiModel


def unsupported(what: str, since: str | None, version: str) -> VmmError:
    """The error for the use of something that the monitor of `version` lacks."""
    needed = f"monitor {since} or newer" if since else "a newer monitor"
    return VmmError(f"{what} needs {needed}; this client is made for {version}")


class Unsupported(ApiModel):
    """Base of the names of models that the monitor lacks: making one raises `VmmError`."""

    since: ClassVar[str | None]
    version: ClassVar[str]

    @model_validator(mode="wrap")
    @classmethod
    def _refuse(cls, value: object, handler: object) -> Self:
        raise unsupported(cls.__name__, cls.since, cls.version)

    def to_json(self) -> bytes:
        """Nothing of this can be sent: raises `VmmError`."""
        raise unsupported(type(self).__name__, self.since, self.version)


class PartlySupported(ApiModel):
    """Base of models that have more fields in newer monitors: None, and a `VmmError` when given."""

    later_fields: ClassVar[Mapping[str, str]]
    """Each with the version it came with."""
    made_for: ClassVar[str]

    @model_validator(mode="before")
    @classmethod
    def _refuse(cls, value: object, info: ValidationInfo) -> object:
        if info.mode == "python" and isinstance(value, Mapping):  # an answer may have what it will
            for name in cls.later_fields.keys() & value.keys():
                what = f"{cls.__name__}.{name}"
                raise unsupported(what, cls.later_fields[name], cls.made_for)
        return value
