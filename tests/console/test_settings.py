"""What the environment may say, and how it is told that it may not."""

import pytest

from examples.console.settings import ConsoleSettings, SettingsError
from fastapi_oidc import ConfigurationError
from fastapi_oidc.session.redis import RedisStore


def test_nothing_is_needed() -> None:
    settings = ConsoleSettings.from_environment({})
    assert (settings.port, settings.provider_port) == (8000, 9400)
    assert settings.sockets == {}
    assert settings.issuer is None
    assert settings.sessions() == "memory"


def test_a_socket_is_called_after_its_file_and_several_may_have_names() -> None:
    text = "web=/run/a=b.socket, /run/db.sock ,"
    for environment, sockets in (
        ({"VMM_SOCKET": "/run/web.socket"}, {"web": "/run/web.socket"}),
        ({"VMM_SOCKETS": text}, {"web": "/run/a=b.socket", "db": "/run/db.sock"}),
    ):
        assert ConsoleSettings.from_environment(environment).sockets == sockets


@pytest.mark.parametrize("text", ["/a/vm.socket,/b/vm.socket", "=/run/x", "a/b=/run/x"])
def test_names_must_tell_monitors_apart(text: str) -> None:
    with pytest.raises(SettingsError, match="needs a name of its own"):
        ConsoleSettings.from_environment({"VMM_SOCKETS": text})


@pytest.mark.parametrize("text", ["web", "-1", "65536", "80.5"])
def test_a_port_is_a_port(text: str) -> None:
    with pytest.raises(SettingsError, match="CONSOLE_PORT: "):
        ConsoleSettings.from_environment({"CONSOLE_PORT": text})


def test_a_misspelled_variable_is_refused() -> None:
    with pytest.raises(SettingsError, match="CONSOLE_FOLER: Extra inputs are not permitted"):
        ConsoleSettings.from_environment({"CONSOLE_FOLER": "/srv/console"})


def test_a_token_that_can_be_guessed_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"CONSOLE_METRICS_TOKEN: .*at least 16 characters"):
        ConsoleSettings.from_environment({"CONSOLE_METRICS_TOKEN": "demo"})
    long = "a-long-random-text-for-prometheus"
    assert ConsoleSettings.from_environment({"CONSOLE_METRICS_TOKEN": long}).metrics_token == long
    assert ConsoleSettings.from_environment({"CONSOLE_METRICS_TOKEN": ""}).metrics_token is None


def test_the_agent_of_simulated_guests_is_on_or_off() -> None:
    with pytest.raises(SettingsError, match="CONSOLE_SIMULATED_AGENT: "):
        ConsoleSettings.from_environment({"CONSOLE_SIMULATED_AGENT": "perhaps"})


# Where sessions are kept


def test_with_a_redis_sessions_are_there() -> None:
    redis = ConsoleSettings.from_environment({"CONSOLE_REDIS": "unix:///run/redis.sock"})
    assert isinstance(redis.sessions(), RedisStore)


def test_an_address_that_is_none_is_refused_in_one_sentence() -> None:
    with pytest.raises(ConfigurationError, match="redis://"):
        ConsoleSettings(redis="localhost:6379").sessions()
