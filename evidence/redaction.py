"""Secrets never leave the decoder: SCRAM credentials, delegation token ids and password-typed configs are replaced."""

from __future__ import annotations

import re
from typing import Any

REDACTED = "[redacted]"

_SECRET_FIELDS = {
    "USER_SCRAM_CREDENTIAL_RECORD": ("salt", "storedKey", "serverKey"),
    "DELEGATION_TOKEN_RECORD": ("tokenId",),
    "REMOVE_DELEGATION_TOKEN_RECORD": ("tokenId",),
}
# Configs of Kafka's type PASSWORD (SslConfigs, SaslConfigs, DelegationTokenManagerConfigs) and what plugins call theirs.
_SECRET_CONFIG = re.compile(
    r"password|passwd|secret|jaas\.config|keystore\.key|certificate\.chain|truststore\.certificates|credential|"
    r"private\.key|token(?!\.endpoint)|api\.?key|access\.?key",
    re.IGNORECASE,
)


def is_secret_config(name: str) -> bool:
    """True for a config whose value must not be shown."""
    return _SECRET_CONFIG.search(name) is not None


def redact(type_name: str, data: dict[str, Any]) -> dict[str, Any]:
    """A record's JSON form with its secrets replaced by `[redacted]`; null stays null (it says 'deleted')."""
    if type_name == "CONFIG_RECORD":
        if data.get("value") is not None and is_secret_config(data.get("name") or ""):
            return {**data, "value": REDACTED}
        return data
    secret = _SECRET_FIELDS.get(type_name, ())
    return {k: REDACTED if k in secret and v is not None else v for k, v in data.items()} if secret else data
