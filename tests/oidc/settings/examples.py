"""Options that are accepted, for tests that change one thing."""

import secrets
from typing import Any

SECRET = secrets.token_urlsafe(32)


def options(**changes: Any) -> dict[str, Any]:
    valid = {
        "issuer": "https://op.example.com",
        "client_id": "app",
        "client_secret": SECRET,
        "cookie_secret": SECRET,
        "base_url": "https://app.example.com",
    }
    return valid | changes
