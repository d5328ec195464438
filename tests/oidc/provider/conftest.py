"""The scripted OP, and a document with its source and time, fresh for every test."""

import pytest

from fastapi_oidc.clock import Clock
from fastapi_oidc.provider.document import Document
from tests.oidc.provider.documents import Source
from tests.oidc.provider.op import OP
from tests.oidc.world import Time


@pytest.fixture
def op() -> OP:
    return OP()


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def document(source: Source, time: Time) -> Document[str]:
    return Document("keys", source, Clock(read=time))
