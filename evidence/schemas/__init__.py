"""Record schemas as data, from the field lists of Kafka's generated message classes (4.3.1)."""
