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
