"""The numbers in the documents are those of the code."""

from __future__ import annotations

from typing import Final

import pytest

from examples.console.scrollback import PART_BYTES
from fastapi_oidc.protocol.authorization import MAX_PARAMETER_LENGTH
from fastapi_oidc.protocol.claims import MAX_SUBJECT_LENGTH
from fastapi_oidc.protocol.jose.compact import MAX_HEADER_BYTES, MAX_TOKEN_LENGTH
from fastapi_oidc.protocol.jose.keys import MAX_KEYS, MAX_RSA_BITS, MIN_RSA_BITS
from fastapi_oidc.protocol.json import MAX_BYTES, MAX_DEPTH
from fastapi_oidc.protocol.urls import MAX_URL_LENGTH
from fastapi_oidc.provider.document import UNKNOWN_KEY_INTERVAL
from fastapi_oidc.session.cookies import MAXIMUM_COOKIE_BYTES
from fastapi_oidc.session.redis.store import DEFAULT_CONNECTIONS
from fastapi_oidc.session.revocations import MOST_LISTED
from fastapi_oidc.web.api_tools import MAX_CALL_BYTES
from generated_vmm.transport.calls import DEFAULT_MAX_BODY_BYTES
from generated_vmm.transport.connection import LONGEST_PATH
from tests.packaging.built import REPOSITORY

PROMISES: Final = [
    ("accepting-tokens", f"once in {UNKNOWN_KEY_INTERVAL} seconds for all requests together"),
    ("mcp", f"A body over {MAX_CALL_BYTES >> 20} MiB"),
    ("console", f"The last {2 * PART_BYTES >> 20} MiB of the guest's output"),
    ("errors", f"a response of the provider | {MAX_BYTES // 10**6} MB, {MAX_DEPTH} levels"),
    ("errors", f"a token | {MAX_TOKEN_LENGTH:,} characters, its header {MAX_HEADER_BYTES} bytes"),
    ("errors", f"a key set | {MAX_KEYS} keys; RSA keys of {MIN_RSA_BITS} to {MAX_RSA_BITS} bits"),
    (
        "errors",
        "a URL; `sub`; a parameter of a callback | "
        f"{MAX_URL_LENGTH}; {MAX_SUBJECT_LENGTH}; {MAX_PARAMETER_LENGTH} characters",
    ),
    ("logout", f"the last {MOST_LISTED:,} of them"),
    ("scaling", f"opens at most {DEFAULT_CONNECTIONS} connections in each process"),
    ("sessions", f"at most {MAXIMUM_COOKIE_BYTES} bytes"),
    ("vmm/errors", f"`max_body_bytes`, {DEFAULT_MAX_BODY_BYTES} by default"),
    ("vmm/errors", f"a unix socket's may be ({LONGEST_PATH} bytes)"),
]


@pytest.mark.parametrize(("page", "promise"), PROMISES)
def test_a_number_in_the_documents_is_that_of_the_code(page: str, promise: str) -> None:
    assert promise in (REPOSITORY / f"docs/{page}.md").read_text()
