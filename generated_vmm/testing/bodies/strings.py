"""Strings in request bodies that the monitor turns into something else, and its refusals."""

from __future__ import annotations

import ipaddress
import re

from generated_vmm.testing.json.reader import Misfit


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


def check_register(text: str) -> str:
    """A register of CPUID."""
    if text not in ("eax", "ebx", "ecx", "edx"):
        raise Misfit("Invalid CPUID register. Must be one of [eax, ebx, ecx, edx]")
    return text


def check_bitmap(text: str) -> str:
    """Bits to set, to clear or (`x`) to leave, with an optional `0b` and underscores."""
    for byte in reversed(text.removeprefix("0b").encode()):
        if byte not in b"_x01":
            raise Misfit(f"Failed to parse string [{text}] as a bitmap - unknown character: {byte}")
    return text


def check_prefixed_number(text: str) -> str:
    """A 32-bit number in binary or hexadecimal; a decimal one is refused."""
    bases = {"0b": 2, "0x": 16}
    if text[:2] not in bases:
        raise Misfit(
            f"No supported number system prefix found in value [{text}]. Make sure to prefix "
            "the number with '0x' for hexadecimal numbers or '0b' for binary numbers."
        )
    digits = text[2:]
    allowed = "01" if text[1] == "b" else "0123456789abcdefABCDEF"
    if not digits or digits.strip(allowed) or int(digits, bases[text[:2]]) >= 2**32:
        kind = "Empty" if not digits else "InvalidDigit" if digits.strip(allowed) else "PosOverflow"
        raise Misfit(
            f"Failed to parse string [{text}] as a number for CPU template - "
            f"ParseIntError {{ kind: {kind} }}"
        )
    return text


def check_kvm_capability(text: str) -> str:
    """The number of a KVM capability to ask for, or with `!` in front, not to ask for."""
    digits = text.removeprefix("!")
    if not (digits.isascii() and digits.isdigit()) or int(digits) >= 2**32:
        raise Misfit(f"Failed to parse string [{text}] as a kvm capability")
    return text
