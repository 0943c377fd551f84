"""What an object works out once for each argument and keeps, as functools.cached_property does without one."""

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

Owner = TypeVar("Owner")
Key = TypeVar("Key")
Value = TypeVar("Value")


def once_each(method: Callable[[Owner, Key], Value]) -> Callable[[Owner, Key], Value]:
    """The method of one argument, which can be hashed; every caller gets the same value: never change it."""
    name = f"{method.__name__} of each"

    @wraps(method)
    def kept(self: Owner, key: Key) -> Value:
        known: dict[Key, Value] = self.__dict__.setdefault(name, {})
        if key not in known:
            known[key] = method(self, key)
        return known[key]

    return kept
