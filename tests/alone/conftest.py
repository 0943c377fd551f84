"""The lake without Spark of tests/slow, for tests that keep both cores busy, or whose settings must be there before a
JVM starts."""

from tests.slow.conftest import without_spark as without_spark
