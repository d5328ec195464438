"""Strings in request bodies that the monitor turns into something else, and its refusals."""

from __future__ import annotations

import ipaddress
import re

from .json_reader import Misfit


def check_ipv4(text: str) -> str:
    """An IPv4 address in dotted decimal."""
    try:
        return str(ipaddress.IPv4Address(text))
    except ValueError:
        raise Misfit("invalid IPv4 address syntax") from None


def check_mac(text: str) -> str:
    """A MAC address as six pairs of hexadecimal digits; the monitor prints it in lower case."""
    if not re.fullmatch(r"[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}", text):
        raise Misfit("The provided MAC address is invalid.")
    return text.lower()


def check_log_level(text: str) -> str:
    """A log level in any case; `Warning` is also known as `Warn`."""
    levels = {"off", "trace", "debug", "info", "warn", "warning", "error"}
    if text.lower() not in levels:
        raise Misfit("Invalid LevelFilter")
    return text.lower()
