"""Reads lists, objects and keys from the text of environment variables."""

from __future__ import annotations

import json

from pydantic import SecretStr


def words(value: object) -> object:
    """Parse a text as a JSON list or as words separated by spaces; other values are unchanged."""
    if not isinstance(value, str):
        return value
    return _json(value) if value.lstrip().startswith("[") else tuple(value.split())


def secrets(value: object) -> object:
    """Parse a text as a JSON list or as one secret, which has no comma."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        return _json(value)
    if isinstance(value, str) and "," in value:
        raise ValueError('has a comma, which separates nothing: several are ["new", "old"]')
    return (value,) if isinstance(value, str | SecretStr) else value


def members(value: object) -> object:
    """Parse a text as a JSON object."""
    return _json(value) if isinstance(value, str) else value


def pem_or_jwk(text: str | None) -> str | dict[str, object] | None:
    """Parse a JWK from JSON text. Text that is neither PEM nor JWK is refused later."""
    if text is None or not text.lstrip().startswith("{"):
        return text
    try:
        jwk: dict[str, object] = json.loads(text)
    except ValueError:
        return text
    return jwk


def revealed(secret: str | SecretStr | None) -> str | None:
    """The plain text of a secret."""
    return secret.get_secret_value() if isinstance(secret, SecretStr) else secret


def _json(text: str) -> object:
    try:
        value: object = json.loads(text)
    except ValueError:
        raise ValueError("begins like JSON but is not valid JSON") from None
    return tuple(value) if isinstance(value, list) else value
