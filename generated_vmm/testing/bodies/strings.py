"""Strings in bodies that the monitor turns into something else, and its words when it cannot."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from typing import Final

from generated_vmm.testing.bodies.json_text import Misread

LEVELS: Final = ("off", "trace", "debug", "info", "warn", "warning", "error")
NUMBER: Final = re.compile(r"0b[01]+|0x[0-9A-Fa-f]+")


def check_ipv4(text: str) -> str:
    """An IPv4 address in dotted decimal."""
    try:
        return str(ipaddress.IPv4Address(text))
    except ValueError:
        raise Misread("invalid IPv4 address syntax") from None


def check_mac(text: str) -> str:
    """A MAC address as six pairs of hexadecimal digits; the monitor prints it in lower case."""
    if not re.fullmatch(r"[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}", text):
        raise Misread("The provided MAC address is invalid.")
    return text.lower()


def check_log_level(text: str) -> str:
    """A log level in any case; `Warning` is also known as `Warn`."""
    if text.lower() not in LEVELS:
        raise Misread("Invalid LevelFilter")
    return text.lower()


def check_register(text: str) -> str:
    """A register of CPUID."""
    if text not in ("eax", "ebx", "ecx", "edx"):
        raise Misread("Invalid CPUID register. Must be one of [eax, ebx, ecx, edx]")
    return text


def bitmap_of(bits: int) -> Callable[[str], str]:
    """A check for bits to set, to clear or (`x`) to leave, with underscores and maybe `0b`."""

    def check(text: str) -> str:
        digits = text.removeprefix("0b").replace("_", "")
        unknown = digits.strip("x01")
        if unknown or len(digits) > bits:
            reason = "unknown character" if unknown else "string is too long"
            raise Misread(f"Failed to parse string [{text}] as a bitmap - {reason}")
        return text

    return check


def check_prefixed_number(text: str) -> str:
    """A 32-bit number in binary or hexadecimal; a decimal one is refused."""
    if text[:2] not in ("0b", "0x"):
        raise Misread(
            f"No supported number system prefix found in value [{text}]. Make sure to prefix "
            "the number with '0x' for hexadecimal numbers or '0b' for binary numbers."
        )
    if not NUMBER.fullmatch(text) or int(text[2:], 2 if text[1] == "b" else 16) >= 2**32:
        raise Misread(f"Failed to parse string [{text}] as a number for CPU template")
    return text


def check_kvm_capability(text: str) -> str:
    """The number of a KVM capability to ask for, or with `!` in front, not to ask for."""
    if not re.fullmatch(r"!?\+?[0-9]{1,19}", text) or int(text.lstrip("!+")) >= 2**32:
        raise Misread(f"Failed to parse string [{text}] as a kvm capability")
    return text
