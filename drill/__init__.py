"""Drills on a real Kafka: break a cluster, capture it, and compare the verdicts with what was lost (docs/drill.md)."""
