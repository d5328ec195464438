"""The npm package oidc-provider as a child process: an OpenID Provider that nobody here wrote."""

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

import httpx

from tests.programs import require_npm_package, require_program

Package = Literal["oidc-provider", "oidc-provider-6"]

SCRIPT = Path(__file__).with_name("provider.mjs")


@dataclass(frozen=True)
class RealProvider:
    """A running provider."""

    issuer: str

    def register(self, metadata: Mapping[str, object]) -> None:
        """Registers a client by its metadata (Dynamic Client Registration 1.0, 2)."""
        httpx.post(f"{self.issuer}/test/clients", json=metadata).raise_for_status()

    def rotate_keys(self) -> None:
        """Replaces every signing key, which takes a busy computer some seconds."""
        httpx.post(f"{self.issuer}/test/keys", timeout=60).raise_for_status()

    def demand_nonces(self) -> None:
        """From now on DPoP proofs need a nonce (RFC 9449 8 and 9)."""
        httpx.post(f"{self.issuer}/test/nonces").raise_for_status()


@contextmanager
def running_provider(package: Package) -> Iterator[RealProvider]:
    """Starts the provider and ends it afterwards; it also ends when this process does."""
    node = require_program("node", package="nodejs")
    require_npm_package(package)
    with subprocess.Popen(
        [node, str(SCRIPT), package], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield RealProvider(_issuer(process.stdout))
        finally:
            process.stdin.close()
            process.wait(10)


def _issuer(output: IO[str]) -> str:
    """What the first line in JSON says; older majors print notices before it."""
    for line in output:
        if line.startswith("{"):
            return str(json.loads(line)["issuer"])
    raise RuntimeError("the provider ended before it listened")
