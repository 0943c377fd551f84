"""Settings from conf/defaults.toml, then the site's own file, then environment variables; the last one wins."""

import os
import re
import sys
import tomllib
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)
from pydantic_settings import SettingsError as NotJsonError

from evidence.broker_logs.layouts import of_pattern
from evidence.errors import UsageError
from evidence.limits import MAX_DURATION_MS, Limits
from evidence.offsets.jmx_exporter import MetricNames
from evidence.redaction import REDACTED, is_secret_config

CONF_VARIABLE = "KRAFT_FORENSICS_CONF"


def _checkout() -> Path | None:
    """The project's folder; None for an installed wheel."""
    root = Path(__file__).resolve().parents[2]
    return root if (root / "conf" / "defaults.toml").is_file() else None


def conf_dir() -> Path:
    """The folder of the project's data files: conf/ in a checkout, jobs/conf in an installed wheel."""
    root = _checkout()
    return root / "conf" if root else Path(__file__).resolve().parents[1] / "conf"


class SettingsError(UsageError):
    """A setting is invalid."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SparkSettings(_Section):
    """[spark]: when and how Spark starts."""

    master: str
    driver_memory: str
    driver_java_options: str
    shuffle_partitions: int = Field(ge=1)
    from_rows: int = Field(ge=0)
    jars_mode: Literal["jars", "packages", "provided"]
    jars_dir: str
    conf: dict[str, str]

    def jars_path(self) -> Path:
        """The folder of Delta's jars: `jars_dir`, else .jars in a checkout, else share/ of the environment that the
        wheel is installed in."""
        if self.jars_dir:
            return Path(self.jars_dir)
        root = _checkout()
        return root / ".jars" if root else Path(sys.prefix) / "share" / "kraft-forensics" / "jars"

    def classes_path(self) -> Path:
        """Where `setup` keeps what Java has made of Spark's classes, next to the jars."""
        return self.jars_path() / "classes.jsa"

    def s3_jars_path(self) -> Path:
        """The folder of the jars with which Spark reads S3, next to that one."""
        folder = self.jars_path()
        return folder.with_name(f"{folder.name}-s3")


class EvidenceSettings(_Section):
    """[evidence]: how captures were made."""

    snapshot_duration_ms: int = Field(ge=0, le=MAX_DURATION_MS)
    clock_error_ms: int = Field(ge=0, le=MAX_DURATION_MS)
    log_patterns: tuple[str, ...]

    @field_validator("log_patterns")
    @classmethod
    def _are_supported(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        for pattern in patterns:
            of_pattern(pattern)
        return patterns


class ReplaySettings(_Section):
    """[replay]: how work is divided."""

    partitions_per_bucket: int = Field(ge=1)
    rows_per_bucket: int = Field(ge=1)


class QualitySettings(_Section):
    """[quality]: how tables are checked."""

    reading_gap_ms: int = Field(ge=1, le=MAX_DURATION_MS)
    covered_share: float = Field(ge=0, le=1)
    reading_age_ms: int = Field(ge=0, le=MAX_DURATION_MS)
    print_delay_ms: int = Field(ge=0, le=MAX_DURATION_MS)
    sample_rows: int = Field(ge=1, le=1000)
    severity: dict[str, Literal["error", "warn"]]


class CustodySettings(_Section):
    """[custody]: what is kept about who did what."""

    ingested_by: str = Field(max_length=200)


class SecretSettings(_Section):
    """[secrets]: how redacted values are shown."""

    key_file: str


class CounterfactualSettings(_Section):
    """[counterfactuals]: predictions for every window, in addition to the fixed policies."""

    deprioritized: tuple[tuple[int, ...], ...]
    min_isr: tuple[PositiveInt, ...]


class Settings(BaseSettings):
    """All settings. Frozen; load them with `load_settings`."""

    model_config = SettingsConfigDict(
        env_prefix="KRAFT_FORENSICS_", env_nested_delimiter="__", extra="forbid", frozen=True
    )

    engine: Literal["spark", "local", "auto"]
    local_processes: int = Field(ge=0)
    spark: SparkSettings
    evidence: EvidenceSettings
    limits: Limits
    replay: ReplaySettings
    quality: QualitySettings
    custody: CustodySettings
    secrets: SecretSettings
    counterfactuals: CounterfactualSettings
    metrics: MetricNames

    @classmethod
    def settings_customise_sources(  # type: ignore[override] # pydantic gives them by name
        cls, settings_cls: type[BaseSettings], init_settings: PydanticBaseSettingsSource, **sources: Any
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The init arguments win, then environment variables, the site's file, and the defaults."""
        files = (InitSettingsSource(settings_cls, values) for values in (site_values(), default_values()))
        return init_settings, sources["env_settings"], *files


def default_values() -> dict[str, Any]:
    """Read conf/defaults.toml."""
    return tomllib.loads((conf_dir() / "defaults.toml").read_text(encoding="utf-8"))


def site_values() -> dict[str, Any]:
    """Read the site's own file; empty if none is named. Errors: SettingsError if it cannot be read."""
    site = os.environ.get(CONF_VARIABLE)
    if not site:
        return {}
    try:
        return tomllib.loads(Path(site).read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        raise SettingsError(f"{CONF_VARIABLE}={site}: cannot be read: {error}") from error


def load_settings(engine: str | None = None) -> Settings:
    """Load the effective settings. engine: of --engine, None without one. Errors: SettingsError naming the setting,
    variable or file that is wrong."""
    _check_variables()
    given: dict[str, Any] = {"engine": engine} if engine else {}
    try:
        return Settings(**given)
    except NotJsonError as error:  # it names only the section
        section = _PREFIX + str(error).split('"')[1].upper()
        named = ", ".join(sorted(name for name in os.environ if name.upper().startswith(section)))
        raise SettingsError(f"{named}: lists and tables are written as JSON, e.g. [1, 2] ({_MEANINGS})") from error
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(p) for p in first["loc"])
        if first["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
            raise _no_setting(f"setting {name}", name, map(".".join, _paths())) from error
        raise SettingsError(f"setting {name}: {first['msg'].removeprefix('Value error, ')} ({_MEANINGS})") from error


def is_remote() -> bool:
    """Whether Spark is a Spark Connect server: SPARK_REMOTE has its address, as for all of PySpark."""
    return bool(os.environ.get("SPARK_REMOTE"))


def _check_variables() -> None:
    """Refuse a variable that looks like a setting and is none: pydantic passes over it. Errors: SettingsError."""
    known = {_DELIMITER.join(path).upper() for path in _paths()}
    for variable in sorted(name for name in os.environ if name.upper().startswith(_PREFIX)):
        name = variable.upper().removeprefix(_PREFIX)
        if _DELIMITER.join(name.split(_DELIMITER)[:2]) not in known and not _NO_SETTINGS.fullmatch(name):
            raise _no_setting(variable, name, known | {"CONF", "BIN"}, _PREFIX)


def _no_setting(what: str, name: str, known: Iterable[str], prefix: str = "") -> SettingsError:
    near = "".join(f", {prefix}{close} is" for close in get_close_matches(name, sorted(known), 1))
    return SettingsError(f"{what}: is no setting{near} ({_MEANINGS})")


def _paths() -> list["_Path"]:
    """Every section, and every setting in one."""
    models = {name: field.annotation for name, field in Settings.model_fields.items()}
    inner = {n: getattr(m, "model_fields", {}) or getattr(m, "__dataclass_fields__", {}) for n, m in models.items()}
    return [(name,) for name in models] + [(name, each) for name, own in inner.items() for each in own]


_PREFIX, _DELIMITER = "KRAFT_FORENSICS_", "__"
_MEANINGS = "defaults and meanings: conf/defaults.toml"
# Other variables: the site's file; of airflow_dags/; what Kubernetes sets in all pods for a Service of this name.
_NO_SETTINGS = re.compile(r"CONF|BIN|DAG_.*|(.*_)?(SERVICE_(HOST|PORT)|PORT)(_.*)?")
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
    origins = dict.fromkeys(_leaves(site_values()), os.environ.get(CONF_VARIABLE))
    present = {name.upper(): name for name in os.environ}  # case does not matter
    for path in _leaves(EnvSettingsSource(Settings)()):
        # Its own variable, or one with a whole section as JSON.
        names = (_PREFIX + _DELIMITER.join(path[:depth]).upper() for depth in range(len(path), 0, -1))
        origins[path] = next(present[name] for name in names if name in present)
    return [
        {"setting": ".".join(path), "value": _shown(path, value), "origin": origins.get(path, "default")}
        for path, value in _leaves(settings.model_dump(mode="json")).items()
    ]


def _leaves(tree: dict[str, Any], path: _Path = ()) -> dict[_Path, Any]:
    """The values of settings, by the names of their sections and their own."""
    found: dict[_Path, Any] = {}
    for name, value in tree.items():
        found |= _leaves(value, (*path, name)) if isinstance(value, dict) else {(*path, name): value}
    return found


def _shown(path: _Path, value: Any) -> Any:
    if path[:2] == ("spark", "conf") and (re.search(_SECRET, path[-1], re.IGNORECASE) or is_secret_config(path[-1])):
        return REDACTED
    return _USER.sub(REDACTED, _NAMED.sub(rf"\1{REDACTED}", value)) if isinstance(value, str) else value
