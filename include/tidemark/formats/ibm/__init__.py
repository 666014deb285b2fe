"""IBM Q Replication / Event Publishing."""
