"""`python -m fastapi_oidc doctor`: prints the findings as lines or as JSON."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict

import httpx

from fastapi_oidc.doctor.examination import examine
from fastapi_oidc.doctor.finding import Finding, Verdict
from fastapi_oidc.doctor.stores import redis
from fastapi_oidc.errors import ConfigurationError
from fastapi_oidc.settings import OIDCSettings

HEALTHY, FAULTY, MISCONFIGURED = 0, 1, 2


def main(
    arguments: Sequence[str] | None = None, *, transport: httpx.AsyncBaseTransport | None = None
) -> int:
    """Print the findings. Returns 0 without a fault, 1 with one, 2 for unusable settings."""
    options = _parser().parse_args(arguments)
    try:
        settings = OIDCSettings(**dict(options.settings))
        return asyncio.run(_print_findings(settings, options, transport))
    except ConfigurationError as error:
        print(error.explanation, file=sys.stderr)
        return MISCONFIGURED
    except BrokenPipeError:
        # The reader closed the pipe. Without this, Python would report the error again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAULTY


async def _print_findings(
    settings: OIDCSettings,
    options: argparse.Namespace,
    transport: httpx.AsyncBaseTransport | None,
) -> int:
    found = []
    async for finding in _findings(settings, options, transport):
        found.append(finding)
        if not options.json:
            print(f"{finding.verdict:8} {finding.topic:20} {finding.text}", flush=True)
    if options.json:
        print(json.dumps([asdict(finding) for finding in found], indent=2))
    return FAULTY if any(finding.verdict is Verdict.FAULT for finding in found) else HEALTHY


async def _findings(
    settings: OIDCSettings,
    options: argparse.Namespace,
    transport: httpx.AsyncBaseTransport | None,
) -> AsyncIterator[Finding]:
    async for finding in examine(settings, prefix=options.prefix, transport=transport):
        yield finding
    if options.redis is not None:
        async for finding in redis(options.redis):
            yield finding


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m fastapi_oidc doctor",
        description="Checks what a login needs. Settings come from OIDC_* variables.",
        epilog="Exit status: 0 without a fault, 1 with one, 2 for settings that cannot be used.",
    )
    parser.add_argument(
        "settings",
        nargs="*",
        type=_setting,
        metavar="option=value",
        help="in place of a variable, as in issuer=https://op.example.com",
    )
    parser.add_argument("--prefix", default="/auth", help="of the library's routes in the app")
    parser.add_argument("--redis", metavar="URL", help="of the session store, to check it too")
    parser.add_argument("--json", action="store_true", help="the same for programs")
    return parser


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError("a setting is written as client_id=app")
    return name.lower().removeprefix("oidc_"), value
