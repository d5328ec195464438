"""The real app and provider take the place of the site that answers on demand."""

from collections.abc import Iterator

import pytest

from tests.browser.whole_path.world import World, running_world


@pytest.fixture
def site() -> Iterator[World]:
    """App and provider, which outlive the pages."""
    with running_world() as world:
        yield world
