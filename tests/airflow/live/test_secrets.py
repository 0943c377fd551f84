"""Secrets of every kind in a capture and in Airflow's environment: a run that fails leaves none of them anywhere."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from running import CONNECTION_SECRETS, REPOSITORY, WAIT_S, Live
from test_live import NIGHTLY, unpause


def _asked(kraft_forensics: str, *arguments: str) -> str:
    """What planted.py prints."""
    command = [str(Path(kraft_forensics).parent / "python"), str(Path(__file__).with_name("planted.py")), *arguments]
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(command, env=environment, cwd=REPOSITORY, capture_output=True, text=True, timeout=WAIT_S)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _logs() -> list[Path]:
    return list(Path(os.environ["AIRFLOW_HOME"]).glob("logs/**/run_id=secrets/**/*.log"))


def test_no_log_no_table_and_no_file_has_a_secret(live: Live, kraft_forensics: str) -> None:
    given = live.folder / "planted" / "2026-03-01"
    given.parent.mkdir()
    _asked(kraft_forensics, "plant", str(given))
    unpause(live, NIGHTLY)
    conf = {"clusters": {"secrets": str(given.parent)}, "lakes": str(live.folder / "secret-lakes"), "fail_on": "info"}
    live.trigger(NIGHTLY, "secrets", conf)
    run: dict[str, Any] = live.wait(
        "the run over secrets",
        lambda: (r := live.api(f"dags/{NIGHTLY}/dagRuns/secrets"))["state"] in ("success", "failed") and r,
    )
    # The hook cannot post the findings, nor that this has failed.
    assert run["state"] == "failed"
    assert live.events.exists(), [file.read_text()[-3000:] for file in _logs()]
    events = [json.loads(line) for line in live.events.read_text().splitlines()]
    (failure,) = [event for event in events if event["run_id"] == "secrets" and event["event"] == "failure"]
    assert "refused" in failure["text"]
    home = Path(os.environ["AIRFLOW_HOME"])
    assert any("URLError" in file.read_text() for file in _logs())
    assert (live.folder / "secret-lakes" / "secrets" / "static_configs").is_dir()
    others = live.folder / "planted" / "others"
    others.write_text("\n".join(CONNECTION_SECRETS))
    searched = json.loads(
        _asked(kraft_forensics, "search", str(given.parent), str(others), str(live.folder), str(home))
    )
    assert searched["leaks"] == []
    assert searched["files"] > 100
