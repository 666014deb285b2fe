"""A published table: an Iceberg table, how a publication is merged into it, and its copy in Parquet folders."""
