"""The same hour in other tools: ``python -m benchmarks.peers``. A module for each, which its own environment runs."""
