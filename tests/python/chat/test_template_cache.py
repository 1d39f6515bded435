"""The cache of what was found in chat templates."""

from __future__ import annotations

from threading import Barrier, Thread

from llamaherd.calls.chat.templating import TemplateCache


def test_a_value_is_found_once_also_if_it_is_none() -> None:
    cache: TemplateCache[str, str | None] = TemplateCache()
    calls = []
    for _ in range(3):
        assert cache.get("a", lambda: calls.append("a")) is None
    assert calls == ["a"]


def test_the_oldest_value_is_dropped_when_there_are_too_many() -> None:
    cache: TemplateCache[int, int] = TemplateCache()
    for i in range(65):
        assert cache.get(i, lambda i=i: i) == i
    assert cache.get(1, lambda: -1) == 1
    assert cache.get(0, lambda: -1) == -1


def test_threads_that_find_a_value_at_the_same_time_get_the_same() -> None:
    cache: TemplateCache[str, object] = TemplateCache()
    both = Barrier(2)
    got: list[object] = []

    def find() -> object:
        both.wait()
        return object()

    threads = [Thread(target=lambda: got.append(cache.get("a", find))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got[0] is got[1]
