"""The lake of tests/unit/jobs/custody."""

from tests.unit.jobs.custody.conftest import capture as capture
from tests.unit.jobs.custody.conftest import cluster as cluster
from tests.unit.jobs.custody.conftest import lake as lake
from tests.unit.jobs.custody.conftest import made as made
