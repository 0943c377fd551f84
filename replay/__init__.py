"""Kafka's rules over Arrow and NumPy: histories, elections, windows. Pure: no Spark, no I/O."""
