"""Record schemas as data, from the field lists of Kafka's generated message classes.

Those of the newest release decode the records of every older one: Kafka adds types, versions and tags and takes none
away (tests/kafka/test_schemas.py compares with the classes of each release).
"""

# The release whose classes metadata_records.json was made from.
RELEASE = "4.4.0"
