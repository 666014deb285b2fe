"""What people do with a feed beside its hours: audit, maintenance, reports, reading a table, the doctor."""
