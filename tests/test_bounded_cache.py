"""`BoundedCache`: a bounded least-recently-used cache."""

from __future__ import annotations

import threading

from memalchemy._cache import BoundedCache


def test_the_least_recently_used_entry_is_dropped_first() -> None:
    cache: BoundedCache[str, int] = BoundedCache(2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.get("a") == 1
    cache.put("c", 3)

    assert [name in cache for name in "abc"] == [True, False, True]
    assert (len(cache), cache.size) == (2, 2)


def test_the_size_is_the_sum_of_the_sizes_of_the_values() -> None:
    cache: BoundedCache[str, str] = BoundedCache(10, len, max_value_size=6)
    cache.put("a", "four")
    cache.put("b", "sixsix")
    cache.put("a", "six")
    assert (cache.size, len(cache)) == (9, 2)

    cache.put("a", "seven77")  # too large, and the earlier value is not to be returned any more
    assert (cache.get("a"), cache.size) == (None, 6)
    cache.drop("b")
    cache.drop("b")
    assert (len(cache), cache.size) == (0, 0)


def test_a_value_that_has_grown_is_measured_when_it_is_put_again() -> None:
    cache: BoundedCache[str, list[int]] = BoundedCache(10, len)
    first = cache.get_or_put("a", list)
    assert cache.get_or_put("a", lambda: [1]) is first
    cache.put("b", [1] * 4)

    first += [1] * 8
    cache.put("a", first)
    assert (cache.size, "b" in cache) == (8, False)


def test_an_earlier_value_stays_if_the_caller_prefers_it() -> None:
    cache: BoundedCache[str, int] = BoundedCache(2)
    for value in (2, 1, 3):
        cache.put("a", value, unless=lambda held, new=value: held >= new)
        assert cache.get("a") == max(2, value)


def test_entries_are_dropped_by_a_condition_which_is_no_use_of_the_others() -> None:
    cache: BoundedCache[str, int] = BoundedCache(3)
    for value, name in enumerate("abc"):
        cache.put(name, value)
    cache.get("a")

    assert cache.drop_where(lambda key, value: key == "c" and value == 2)
    cache.put("d", 3)
    cache.put("e", 4)
    assert [name in cache for name in "abcde"] == [True, False, False, True, True]
    cache.clear()
    assert (len(cache), cache.size) == (0, 0)


def test_a_finaliser_does_not_wait_for_the_cache_in_whose_use_it_runs() -> None:
    cache: BoundedCache[str, int] = BoundedCache(3)

    def create() -> int:
        assert not cache.drop_where(lambda *_: True, wait=False)
        return 1

    assert cache.get_or_put("a", create) == 1
    assert cache.drop_where(lambda *_: True, wait=False)
    assert len(cache) == 0


def test_threads_may_share_a_cache() -> None:
    cache: BoundedCache[int, int] = BoundedCache(50)

    def work(first: int) -> None:
        for n in range(2_000):
            cache.put((first + n) % 100, n)
            cache.get(n % 100)
            cache.drop((first * n) % 100)

    threads = [threading.Thread(target=work, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert cache.size == len(cache) <= 50
