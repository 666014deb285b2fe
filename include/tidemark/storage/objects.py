"""Which storage holds a location: local files, or S3."""

from __future__ import annotations

from tidemark.settings import Settings
from tidemark.storage.contract import Storage


def storage_of(location: str, settings: Settings) -> Storage:
    """The storage that holds a location."""
    if location.startswith("s3://"):
        from tidemark.storage.s3 import S3Objects, s3_client

        return S3Objects(s3_client(settings.s3_endpoint, settings.s3_region))
    from tidemark.storage.local_files import LocalFiles

    return LocalFiles()
