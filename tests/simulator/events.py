"""A clock of milliseconds that jumps from one event to the next."""

import heapq
from collections.abc import Callable
from typing import Any


class Events:
    """Things to come, in order of time; of those at the same time the one that was planned first."""

    def __init__(self, now: int) -> None:
        self.now = now
        self._heap: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._number = 0

    def at(self, time_ms: int, action: Callable[..., None], *arguments: Any) -> None:
        self._number += 1
        heapq.heappush(self._heap, (max(time_ms, self.now), self._number, action, arguments))

    def after(self, wait_ms: int, action: Callable[..., None], *arguments: Any) -> None:
        self._number += 1
        heapq.heappush(self._heap, (self.now + wait_ms, self._number, action, arguments))

    def clear(self) -> None:
        """Nothing comes any more."""
        self._heap.clear()

    def run_until(self, time_ms: int) -> None:
        heap = self._heap
        while heap and heap[0][0] <= time_ms:
            self.now, _, action, arguments = heapq.heappop(heap)
            action(*arguments)
        self.now = time_ms
