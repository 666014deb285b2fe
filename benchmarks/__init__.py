"""Tidemark next to its peers on one workload: ``python -m benchmarks.run``; the method is in the README here."""
