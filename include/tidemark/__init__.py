"""Hourly exports of change-data topics become verified, current-state lakehouse tables."""

#: The version of this release: pyproject.toml reads it here.
__version__ = "0.1.0"
