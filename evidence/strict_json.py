"""Strict JSON, as Kafka writes it: exact integers; no duplicate keys, NaN or excessive nesting."""

import json
from typing import Any, NoReturn

from evidence.errors import DecodeError


def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object's pairs. Errors: ValueError for a key that is there twice."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object has a key twice")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=distinct, parse_constant=_no_constant)


def read_object(text: bytes) -> dict[str, Any]:
    """One JSON object. Errors: DecodeError with the problem, never with a value."""
    try:
        value = _DECODER.decode(text.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise DecodeError("bad_text", f"not UTF-8 at byte {error.start}", error.start) from None
    except RecursionError:
        raise DecodeError("bad_json", "nested deeper than any metadata record", 0) from None
    except ValueError as error:
        raise DecodeError("bad_json", f"not JSON as Kafka writes it: {str(error)[:100]}", 0) from None
    if type(value) is not dict:
        raise DecodeError("bad_json", "a JSON value that is not an object", 0)
    if b"\\u" in text:
        _refuse_halves(value)
    return value


def _refuse_halves(value: dict[str, Any]) -> None:
    """Refuse half a surrogate pair: JSON can escape it, but it is not text and cannot be stored."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise DecodeError("bad_text", "half a surrogate pair", 0) from None
