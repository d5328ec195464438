import pytest

from tests.oidc.testing.bare_client import BareClient, bare_client


@pytest.fixture
def rp() -> BareClient:
    """A confidential client, registered for client_secret_basic and RS256."""
    return bare_client()
