"""The command line of the monitor, and the options it is made of."""

from datetime import timedelta
from types import MappingProxyType
from typing import Any

import pytest

from generated_vmm.process.place import Place
from generated_vmm.process.settings import monitor_arguments

PATHS: dict[str, str | None] = {
    "api_sock": "/api.socket",
    "config_file": None,
    "metadata": None,
    "seccomp_filter": None,
    "log_path": "/log",
    "metrics_path": "/metrics",
}
ALWAYS = ["--api-sock", "/api.socket", "--log-path", "/log", "--metrics-path", "/metrics"]


def settings(**options: Any) -> dict[str, Any]:
    return Place("firecracker", options).settings


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"enable_pci": True}, ["--enable-pci"]),
        ({"boot_timer": True}, ["--boot-timer"]),
        ({"no_seccomp": True}, ["--no-seccomp"]),
        ({"show_level": True}, ["--show-level"]),
        ({"show_log_origin": True}, ["--show-log-origin"]),
        ({"http_api_max_payload_size": 99}, ["--http-api-max-payload-size", "99"]),
        ({"mmds_size_limit": 98}, ["--mmds-size-limit", "98"]),
        ({"level": "Debug"}, ["--level", "Debug"]),
        ({"module": "vmm"}, ["--module", "vmm"]),
    ],
)
def test_an_option_becomes_its_argument(options: dict[str, Any], words: list[str]) -> None:
    made = monitor_arguments(settings(**options), PATHS)
    begin = made.index(words[0])
    assert made[begin : begin + len(words)] == words
    assert sorted(made[:begin] + made[begin + len(words) :]) == sorted(ALWAYS)


@pytest.mark.parametrize("name", ["config_file", "metadata", "seccomp_filter"])
def test_a_file_is_given_as_the_monitor_sees_it(name: str) -> None:
    words = monitor_arguments(settings(), {**PATHS, name: "/inside"})
    assert words[words.index(f"--{name.replace('_', '-')}") + 1] == "/inside"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"id": "a_b"}, "id is 'a_b'; String should match"),
        ({"id": "a" * 65}, "1,64"),
        ({"serial_bytes": 0}, "serial_bytes"),
        ({"timeout": timedelta(seconds=5)}, "timeout is .* it must be a valid number"),
        ({"grace": "5"}, "grace is '5'; it must be a valid number"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": float("nan")}, "timeout"),
        ({"grace": float("nan")}, "grace"),
        ({"log_path": ""}, "log_path is empty"),
        ({"directory": ""}, "directory is empty"),
        ({"directory": "/tmp/a\0b"}, "directory has a NUL character"),
        ({"module": "a\0b"}, "module has a NUL character"),
        ({"grace": -1}, "grace"),
        ({"timeout": float("inf")}, "timeout is inf; it must be less than"),
        ({"level": "debug"}, "level is 'debug'; it must be 'Error', 'Warning'"),
        ({"env": {"TOKEN": 12345}}, "^env has 'TOKEN'; it must be a valid string$"),
    ],
)
def test_what_no_monitor_takes_is_refused_before_a_start(
    options: dict[str, Any], says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        settings(**options)


def test_an_environment_may_be_any_mapping_of_any_text() -> None:
    given = MappingProxyType({"ODD": "\udcff"})
    assert settings(env=given, cwd="/\udcff")["env"] == given


def test_an_option_that_is_none_has_its_default() -> None:
    assert settings(directory=None, log_path=None) == settings()
    with pytest.raises(TypeError, match="derectory"):
        settings(derectory="/vm")
