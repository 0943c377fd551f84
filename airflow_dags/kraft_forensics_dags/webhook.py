"""An example of a hook: post each event as JSON to a URL.

`KRAFT_FORENSICS_DAG_HOOK=kraft_forensics_dags.webhook:post`
"""

from __future__ import annotations

import json
import os
import urllib.request
from typing import Any

URL_VARIABLE = "KRAFT_FORENSICS_DAG_WEBHOOK_URL"
SECONDS = 10


def post(event: dict[str, Any]) -> None:
    """POST the event. Errors: KeyError without the variable; OSError, also for an answer of 400 and above."""
    body = json.dumps(event).encode()
    request = urllib.request.Request(os.environ[URL_VARIABLE], body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=SECONDS):
        pass
