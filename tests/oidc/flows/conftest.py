"""Worlds that many tests of this folder begin with."""

import pytest

from tests.oidc.flows.steps import two_processes
from tests.oidc.world import World, make_world


@pytest.fixture
def world(mode: str) -> World:
    """One process, with sessions in cookies or in a store."""
    return make_world(session_store="memory" if mode == "store" else None)


@pytest.fixture
def processes(mode: str) -> tuple[World, World]:
    """Two processes that share refresh records and revocations, and the sessions in a store."""
    return two_processes(mode)
