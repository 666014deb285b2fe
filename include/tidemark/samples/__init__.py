"""Generators of exports with a known outcome, for the demo, the tests and the benchmark. Plain Python, no Spark."""
