"""What a feed keeps beside its tables: change log, system tables, receipts, manifests, the pending publication."""
