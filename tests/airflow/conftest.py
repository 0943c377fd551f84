"""A real Airflow for the tests: a fresh AIRFLOW_HOME with a SQLite database, migrated once, gone at the end.

Airflow reads its settings when it is first imported, so they are set here, before any test module imports it.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
DAGS = REPOSITORY / "airflow_dags"
HOME = tempfile.TemporaryDirectory(prefix="kraft-forensics-airflow-", ignore_cleanup_errors=True)

# Nothing of the developer's own Airflow may reach the tests, above all not its database.
for name in [name for name in os.environ if name.startswith(("AIRFLOW_", "KRAFT_FORENSICS_DAG_"))]:
    del os.environ[name]
os.environ |= {
    "AIRFLOW_HOME": HOME.name,
    "AIRFLOW__CORE__DAGS_FOLDER": str(DAGS),
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__LOGGING__COLORED_CONSOLE_LOG": "False",
    "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
    # A task runs the same command with any engine; by spark-submit it is Spark.
    "KRAFT_FORENSICS_ENGINE": "local",
    "KRAFT_FORENSICS_DAG_RETRIES": "1",
    "KRAFT_FORENSICS_DAG_RETRY_DELAY_SECONDS": "1",
}


@pytest.fixture(scope="session", autouse=True)
def _airflow_db() -> None:
    """The migrated metadata database."""
    done = subprocess.run([sys.executable, "-m", "airflow", "db", "migrate"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="session")
def kraft_forensics() -> str:
    """Path of the real command; its absence is a failure, not a skip."""
    name = os.environ.get("KRAFT_FORENSICS_BIN", "kraft-forensics")
    path = shutil.which(name)
    if path is None:
        pytest.fail(f"{name!r} is not a program: run these tests with `make test-airflow`, or set KRAFT_FORENSICS_BIN")
    return path


@pytest.fixture(scope="session")
def capture() -> Path:
    """The bundled real capture."""
    path = REPOSITORY / "examples" / "unclean.tar.xz"
    assert path.is_file()
    return path
