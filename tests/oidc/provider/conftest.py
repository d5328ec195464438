"""The scripted OP, fresh for every test."""

from __future__ import annotations

import pytest

from tests.oidc.provider.op import OP


@pytest.fixture
def op() -> OP:
    return OP()
