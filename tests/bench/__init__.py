"""Benchmarks: `make bench`. docs/benchmarks.md explains the figures."""
