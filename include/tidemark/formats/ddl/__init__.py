"""DDL statements of sources."""
