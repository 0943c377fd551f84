"""The effective settings, and which of the three sources each one comes from (jobs/config/settings.py)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

from pydantic_settings import EnvSettingsSource

from evidence.redaction import REDACTED, is_secret_config
from jobs.config.settings import CONF_VARIABLE, Settings, load_settings, site_values

_PREFIX, _DELIMITER = "KRAFT_FORENSICS_", "__"
_SECRET = r"password|secret|token|key"
# Secrets inside a value: -Dname=secret, and the user part of a URL.
_NAMED = re.compile(rf"([^\s=]*(?:{_SECRET})[^\s=]*=)(\"[^\"]*\"|'[^']*'|\S+)", re.IGNORECASE)
_USER = re.compile(r"(?<=://)[^/\s@]+(?=@)")

_Path = tuple[str, ...]


def effective_settings() -> list[dict[str, Any]]:
    """Rows {setting, value, origin}, section by section as in conf/defaults.toml; likely secrets are redacted.

    origin: `default`, the path of the site's file, or the name of an environment variable. Errors: SettingsError.
    """
    settings = load_settings()
    site, environment = site_values(), EnvSettingsSource(Settings)()
    return [
        {"setting": ".".join(path), "value": _shown(path, value), "origin": _origin(path, site, environment)}
        for path, value in _leaves(settings.model_dump(mode="json"))
    ]


def unknown_variables() -> list[str]:
    """Environment variables that look like settings but name a section that does not exist. They have no effect."""
    named = (name for name in os.environ if name.upper().startswith(_PREFIX) and _DELIMITER in name)
    sections = {section.upper() for section in Settings.model_fields}
    return sorted(n for n in named if n.upper().removeprefix(_PREFIX).split(_DELIMITER)[0] not in sections)


def _leaves(tree: dict[str, Any], path: _Path = ()) -> Iterator[tuple[_Path, Any]]:
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from _leaves(value, (*path, name))
        else:
            yield (*path, name), value


def _origin(path: _Path, site: dict[str, Any], environment: dict[str, Any]) -> str:
    if _names(environment, path):
        return _variable(path)
    return os.environ[CONF_VARIABLE] if _names(site, path) else "default"


def _names(tree: Any, path: _Path) -> bool:
    for name in path:
        if not isinstance(tree, dict) or name not in tree:
            return False
        tree = tree[name]
    return True


def _variable(path: _Path) -> str:
    """The variable that sets a setting: its own, or one with a whole section as JSON. Case does not matter."""
    present = {name.upper(): name for name in os.environ}
    names = (_PREFIX + _DELIMITER.join(path[:depth]).upper() for depth in range(len(path), 0, -1))
    return next(present[name] for name in names if name in present)


def _shown(path: _Path, value: Any) -> Any:
    if path[:2] == ("spark", "conf") and (re.search(_SECRET, path[-1], re.IGNORECASE) or is_secret_config(path[-1])):
        return REDACTED
    return _USER.sub(REDACTED, _NAMED.sub(rf"\1{REDACTED}", value)) if isinstance(value, str) else value
