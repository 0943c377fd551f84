"""The lake of tests/unit/jobs."""

from tests.unit.jobs.conftest import capture as capture
from tests.unit.jobs.conftest import cluster as cluster
from tests.unit.jobs.conftest import lake as lake
from tests.unit.jobs.conftest import made as made
