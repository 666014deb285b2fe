"""Bytes: files and S3 objects, where landed objects lie, retries, and the lock that keeps one writer."""
