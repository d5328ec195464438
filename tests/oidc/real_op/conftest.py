from collections.abc import Iterator

import pytest

from tests.oidc.real_op.browser import Browser, new_browser
from tests.oidc.real_op.real_provider import RealProvider, running_provider
from tests.oidc.real_op.relying_party import RelyingParty, relying_party


@pytest.fixture(scope="session")
def provider() -> Iterator[RealProvider]:
    """The current oidc-provider; clients register one by one."""
    with running_provider("oidc-provider") as running:
        yield running


@pytest.fixture(scope="session")
def older_provider() -> Iterator[RealProvider]:
    """The last major that has Session Management, and takes secrets that are not ASCII."""
    with running_provider("oidc-provider-6") as running:
        yield running


@pytest.fixture
def rp(provider: RealProvider) -> Iterator[RelyingParty]:
    """A confidential client with client_secret_basic and RS256."""
    with relying_party(provider) as served:
        yield served


@pytest.fixture
def browser() -> Iterator[Browser]:
    with new_browser() as new:
        yield new
