"""Replace secrets before they leave the decoder: SCRAM credentials, delegation token ids, password-typed configs.

A secret becomes `[redacted]`, or with a site's key `[redacted <digest>]`: the first 16 hex digits of HMAC-SHA256 (RFC
2104) with that key. Equal secrets have equal digests, and nobody without the key can try words.
"""

import hashlib
import hmac
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from evidence.errors import UsageError

REDACTED = "[redacted]"
_REDACTED = re.compile(r"\[redacted(?: [0-9a-f]{16})?\]")
_LEAST_KEY_BYTES, _DIGEST_CHARS = 16, 16
_KEY: ContextVar[bytes | None] = ContextVar("key", default=None)


@contextmanager
def digests_by(key_file: str) -> Iterator[None]:
    """Within the block secrets are replaced with digests by the key in a file; "": without digests. Errors:
    UsageError if the file cannot be read or holds less than 16 bytes."""
    token = _KEY.set(_key_in(Path(key_file)) if key_file else None)
    try:
        yield
    finally:
        _KEY.reset(token)


def _key_in(file: Path) -> bytes:
    try:
        key = file.read_bytes().strip()
    except OSError as error:
        raise UsageError(f"setting secrets.key_file: {file}: cannot be read: {error.strerror}") from error
    if len(key) < _LEAST_KEY_BYTES:
        raise UsageError(f"setting secrets.key_file: {file}: a key has at least {_LEAST_KEY_BYTES} bytes")
    return key


def redacted(secret: object) -> str:
    """What is shown instead of a secret. One that was redacted before stays as it is."""
    text, key = str(secret), _KEY.get()
    if _REDACTED.fullmatch(text):
        return text
    if key is None:
        return REDACTED
    digest = hmac.new(key, text.encode("utf-8", "backslashreplace"), hashlib.sha256).hexdigest()
    return f"[redacted {digest[:_DIGEST_CHARS]}]"


def is_redacted(text: str) -> bool:
    """Whether something in a text was redacted."""
    return _REDACTED.search(text) is not None


_SECRET_FIELDS = {
    "USER_SCRAM_CREDENTIAL_RECORD": ("salt", "storedKey", "serverKey"),
    "DELEGATION_TOKEN_RECORD": ("tokenId",),
    "REMOVE_DELEGATION_TOKEN_RECORD": ("tokenId",),
}
# Kafka's configs of type PASSWORD and the usual names in plugins. An unknown config whose name matches is treated as a
# secret.
_SECRET_CONFIG = re.compile(
    r"password|passwd|passphrase|secret|jaas\.config|keystore\.key|certificate\.chain|truststore\.certificates|"
    r"credential|private\.key|master\.key|token|api\.?key|access\.?key",
    re.IGNORECASE,
)
# Kafka's configs whose names match but whose type is not PASSWORD (DelegationTokenManagerConfigs,
# PasswordEncoderConfigs, SaslConfigs), with or without a listener's prefix.
_OPEN_CONFIG = re.compile(
    r"(listener\.name\.[^.]+\.([^.]+\.)?)?("
    r"delegation\.token\.(max\.lifetime|expiry\.time|expiry\.check\.interval)\.ms|"
    r"password\.encoder\.(cipher\.algorithm|iterations|key\.length|keyfactory\.algorithm)|"
    r"sasl\.oauthbearer\.(token\.endpoint\.url|client\.credentials\.(client\.id|scope)|assertion\.private\.key\.file))"
)


# What undecodable bytes must not show: the frames (version 1, type, version 0) of the record types that carry secrets,
# and the words around secrets in text.
_SECRET_FRAME = re.compile(rb"\x01[\x0a\x0b\x1a]\x00")
_SECRET_WORD = re.compile(rb"scram|delegation|salt|storedkey|serverkey", re.IGNORECASE)
_MAGIC_AT, _CODEC_AT = 16, 22


def may_hold_secrets(raw: bytes) -> bool:
    """Whether undecodable bytes may hold a secret. Always true for compressed bytes, which cannot be searched."""
    compressed = len(raw) > _CODEC_AT and raw[_MAGIC_AT] == 2 and bool(raw[_CODEC_AT] & 0x07)
    text = raw.decode("latin-1")
    return compressed or any(p.search(raw) for p in (_SECRET_FRAME, _SECRET_WORD)) or bool(_SECRET_CONFIG.search(text))


def excerpt(raw: bytes, limit: int = 60) -> str:
    """The first `limit` bytes of a line for an error message; `[redacted]` if the line may hold a secret."""
    return REDACTED if may_hold_secrets(raw) else repr(raw[:limit])


def reason_for(error: Exception, raw: bytes) -> str:
    """An error's text, which may quote a part of the line; `[redacted]` if the line may hold a secret."""
    return REDACTED if may_hold_secrets(raw) else f"{error} is missing" if isinstance(error, KeyError) else str(error)


def is_secret_config(name: str) -> bool:
    """Whether a config's value must not be shown."""
    return _SECRET_CONFIG.search(name) is not None and _OPEN_CONFIG.fullmatch(name) is None


def config_value(name: str, value: str) -> str:
    """A config's value as it may be shown: a secret, or the passwords in it (of a URL, in a JAAS configuration),
    replaced."""
    return redacted(value) if is_secret_config(name) else redact_text(value)


def redact(type_name: str, data: dict[str, Any]) -> dict[str, Any]:
    """A record's JSON form with its secrets replaced (`redacted`); null stays null (it means 'deleted').

    For the record types that carry secrets, whatever cannot be decoded is replaced as a whole: the raw bytes of an
    unknown version, and unknown tagged fields.
    """
    if type_name == "CONFIG_RECORD":
        name, value = data.get("name") or "", data.get("value")
        fields: tuple[str, ...] = ("value",) if is_secret_config(name) else ()
        if value and not fields:
            data = {**data, "value": redact_text(value)}
    elif type_name in _SECRET_FIELDS:
        fields = _SECRET_FIELDS[type_name]
    else:
        return data
    fields = (*fields, "raw", "_unknownTaggedFields") if fields or "raw" in data else ()
    return {k: redacted(v) if k in fields and v is not None else v for k, v in data.items()}


_PAIR = re.compile(
    r"""([A-Za-z0-9_.\-]{1,200})("?\s*(?:=|:|->)\s*)(\[redacted[^\]]*\]|"(?:[^"\\]|\\.)*"|'[^']*'|[^\s,;})\]]+)"""
)
# A line of a config dump: all of the rest is the value, spaces too.
_CONFIG_LINE = re.compile(r"(([A-Za-z0-9_.\-]{1,200}) = )(.*)")
# For a first look at many texts at once, in any engine and ignoring case: `redact_text` leaves others as they are.
SECRET_WORDS = _SECRET_CONFIG.pattern + r"|://"
_URL_USER = re.compile(r"(://[^/\s:@]{1,200}:)([^/\s@]{1,200})@")


def redact_text(text: str) -> str:
    """A log message with the values of secret configs replaced (`name = value`, `name=value`, `name -> value`,
    `"name":"value"`), and passwords in URLs; as a whole where a JAAS configuration is in it."""
    text = _URL_USER.sub(lambda m: f"{m[1]}{redacted(m[2])}@", text) if "://" in text else text
    if _SECRET_CONFIG.search(text) is None:
        return text
    if re.search(r"LoginModule", text):
        return REDACTED
    text = _CONFIG_LINE.sub(lambda m: m[1] + redacted(m[3]) if is_secret_config(m[2]) else m[0], text)
    return _PAIR.sub(lambda m: m[1] + m[2] + redacted(m[3].strip("\"'")) if is_secret_config(m[1]) else m[0], text)
