"""The numbers in the documents are those of the code."""

from __future__ import annotations

from typing import Final

import pytest

from codegen.document import DEEPEST, LARGEST, MOST_VALUES
from examples.console.scrollback import PART_BYTES
from fastapi_oidc.protocol.authorization import MAX_PARAMETER_LENGTH
from fastapi_oidc.protocol.claims import MAX_SUBJECT_LENGTH
from fastapi_oidc.protocol.client_auth import ASSERTION_LIFETIME
from fastapi_oidc.protocol.error_text import MAX_TEXT, MAX_VALUE
from fastapi_oidc.protocol.jose.compact import MAX_HEADER_BYTES, MAX_TOKEN_LENGTH
from fastapi_oidc.protocol.jose.keys import MAX_KEYS, MAX_RSA_BITS, MIN_RSA_BITS
from fastapi_oidc.protocol.json import MAX_BYTES, MAX_DEPTH
from fastapi_oidc.protocol.return_path import MAX_RETURN_PATH_LENGTH
from fastapi_oidc.protocol.urls import MAX_URL_LENGTH
from fastapi_oidc.provider.keys import UNKNOWN_KEY_INTERVAL
from fastapi_oidc.resource_server.introspections import MAX_TOKENS
from fastapi_oidc.session.lists import MOST_LISTED
from fastapi_oidc.session.redis.clients import DEFAULT_CONNECTIONS
from fastapi_oidc.session.revocations import MINIMUM_LIFETIME
from fastapi_oidc.session.sealing import CACHED_SECONDS, CACHED_TEXTS, LARGEST_CACHED_TEXT
from fastapi_oidc.session.transaction_cookies import MAXIMUM_COOKIE_BYTES
from fastapi_oidc.web.api_tools import MAX_CALL_BYTES
from generated_vmm.transport.calls import DEFAULT_MAX_BODY_BYTES
from generated_vmm.transport.connection import LONGEST_PATH
from tests.packaging.built import REPOSITORY

PROMISES: Final = [
    ("accepting-tokens", f"The cache has {MAX_TOKENS:,} active and {MAX_TOKENS:,} inactive tokens"),
    ("accepting-tokens", f"once in {UNKNOWN_KEY_INTERVAL} seconds for all requests together"),
    ("mcp", f"A body over {MAX_CALL_BYTES >> 20} MiB"),
    ("console", f"The last {2 * PART_BYTES >> 20} MiB of the guest's output"),
    ("errors", f"Descriptions are cut at {MAX_TEXT:,} characters, other values at {MAX_VALUE}."),
    ("errors", f"A response of the provider | {MAX_BYTES // 10**6} MB, {MAX_DEPTH} levels"),
    ("errors", f"A token | {MAX_TOKEN_LENGTH:,} characters, its header {MAX_HEADER_BYTES} bytes"),
    ("errors", f"A key set | {MAX_KEYS} keys; RSA keys of {MIN_RSA_BITS} to {MAX_RSA_BITS} bits"),
    ("errors", f"A URL | {MAX_URL_LENGTH} ASCII characters"),
    ("errors", f"`sub` | {MAX_SUBJECT_LENGTH} ASCII characters"),
    ("errors", f"A parameter of a callback | {MAX_PARAMETER_LENGTH} characters"),
    ("errors", f"A client assertion | {ASSERTION_LIFETIME} s"),
    ("logout", f"the last {MOST_LISTED:,} of them"),
    ("logout", f"for `session_lifetime` or at least {MINIMUM_LIFETIME // 86_400} days"),
    ("scaling", f"opens at most {DEFAULT_CONNECTIONS} connections in each process"),
    ("security", f"decrypted twice, the second time in the last {CACHED_SECONDS} seconds"),
    ("security", f"(at most {CACHED_TEXTS:,} of {LARGEST_CACHED_TEXT // 1024} KiB each)"),
    ("security", f"opaque access tokens ({MAX_TOKENS:,})"),
    ("sessions", f"{MAXIMUM_COOKIE_BYTES} bytes in all"),
    ("sessions", f"more than {MAX_RETURN_PATH_LENGTH} characters"),
    ("vmm/errors", f"`max_body_bytes`, {DEFAULT_MAX_BODY_BYTES} by default"),
    ("vmm/errors", f"a unix socket's may be ({LONGEST_PATH} bytes)"),
    (
        "vmm/new-monitor-version",
        f"{LARGEST >> 20} MiB, {DEEPEST} levels and {MOST_VALUES:,} values",
    ),
]


@pytest.mark.parametrize(("page", "promise"), PROMISES)
def test_a_number_in_the_documents_is_that_of_the_code(page: str, promise: str) -> None:
    assert promise in (REPOSITORY / f"docs/{page}.md").read_text()
