"""The words of an incident, from words.toml, by the names that tables have for causes, actors, lines and statements."""

import tomllib
from importlib.resources import files
from typing import Any

_WORDS = tomllib.loads(files("replay.incident").joinpath("words.toml").read_text("utf-8"))
ELECTIONS: dict[str, dict[str, Any]] = _WORDS["elections"]
ACTORS: dict[str, str] = _WORDS["actors"]
TROUBLE: dict[str, str] = _WORDS["trouble"]
MISSING: dict[str, dict[str, str]] = _WORDS["missing"]
