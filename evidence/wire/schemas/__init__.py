"""Record schemas as data, from the field lists of Kafka's generated message classes.

The newest release's schemas decode the records of all older releases: Kafka adds types, versions and tags and removes
none (tests/kafka/test_schemas.py compares them with the classes of each release).
"""

# The release whose classes metadata_records.json was generated from.
RELEASE = "4.4.0"
