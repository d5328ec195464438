"""A dictionary whose entries expire, within bounds, also with threads."""

import tracemalloc
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastapi_oidc.clock import Clock, TTLCache
from tests.oidc.world import Time


def test_expired_entries_leave_with_later_writes_and_never_all_at_once() -> None:
    time = Time(1000)
    cache: TTLCache[int, int] = TTLCache(Clock(read=time))
    for number in range(1000):
        cache.set(number, number, expires_at=1010)
    time.now = 1010
    cache.set(-1, 0, expires_at=2000)
    assert len(cache) > 990
    for number in range(-300, -1):
        cache.set(number, 0, expires_at=2000)
    assert len(cache) == 300


def test_beyond_the_limit_the_entry_that_expires_first_goes() -> None:
    cache: TTLCache[str, int] = TTLCache(Clock(read=lambda: 1000), max_entries=2)
    cache.set("long", 1, expires_at=1200)
    cache.set("short", 1, expires_at=1100)
    cache.set("short", 2, expires_at=1250)
    cache.set("longer", 1, expires_at=1300)
    assert [name for name in ("long", "short", "longer") if name in cache] == ["short", "longer"]


@pytest.mark.parametrize("limit", [None, 50])
def test_entries_that_are_replaced_or_popped_take_no_room(limit: int | None) -> None:
    """A session for each second of a day, which is used again, refreshed or signed out."""
    cache: TTLCache[object, int] = TTLCache(Clock(read=lambda: 1000), max_entries=limit)
    tracemalloc.start()
    for second in range(5_000):
        cache.set("moved", second, expires_at=100_000 + second)
        cache.set(second, second, expires_at=100_000 + second)
        cache.pop(second)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size < 100_000, "bytes for one entry and a short heap"


writes = st.lists(
    st.tuples(st.integers(0, 5), st.integers(990, 1030), st.sampled_from(["set", "pop", "wait"])),
    max_size=60,
)


@given(writes)
def test_it_is_a_dictionary_of_what_has_not_expired(operations: list[tuple[int, int, str]]) -> None:
    time = Time(1000)
    cache: TTLCache[int, int] = TTLCache(Clock(read=time))
    plain: dict[int, tuple[int, int]] = {}
    for count, (key, expires_at, operation) in enumerate(operations):
        if operation == "set":
            cache.set(key, count, expires_at=expires_at)
            plain[key] = (expires_at, count)
        elif operation == "pop":
            end, value = plain.pop(key, (0, None))
            assert cache.pop(key) == (value if time.now < end else None)
        else:
            time.now += 3
        expected = {name: value for name, (end, value) in plain.items() if time.now < end}
        assert {name: cache.get(name) for name in range(6) if name in cache} == expected


def test_threads_write_one_after_the_other() -> None:
    cache: TTLCache[object, int] = TTLCache(Clock(read=lambda: 1000))
    other = Thread(target=cache.set, args=("two", 2), kwargs={"expires_at": 2000})

    class Interrupted:
        """A key at whose first look-up, amid a write, another thread begins to write."""

        def __hash__(self) -> int:
            if other.ident is None:
                other.start()
                other.join(0.05)
                assert other.is_alive(), "the other thread did not wait"
            return 1

    cache.set(Interrupted(), 1, expires_at=2000)
    other.join()
    assert (cache.get("two"), len(cache)) == (2, 2)
