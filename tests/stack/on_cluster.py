"""What the tests run in the cluster's settings: ``python -m tests.stack.on_cluster upload|compare …``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import boto3

from tests.e2e.generated import findings
from tidemark.settings import Settings


def upload(*roots: str) -> None:
    """Bring the exports of samples into the bucket, as an exporter does."""
    settings = Settings()
    s3 = boto3.client("s3", endpoint_url=settings.s3_endpoint)
    for exports in (Path(root, "exports") for root in roots):
        for file in sorted(exports.rglob("*")):
            if file.is_file():
                s3.upload_file(str(file), settings.exports.removeprefix("s3://"), str(file.relative_to(exports)))


def compare(root: str, *hours: str) -> None:
    """Print, by hour and table, what is not as the truth says."""
    found = {hour: findings(Path(root), hour, Settings()) for hour in hours}
    sys.stdout.write(json.dumps({hour: tables for hour, tables in found.items() if tables}))


if __name__ == "__main__":
    {"upload": upload, "compare": compare}[sys.argv[1]](*sys.argv[2:])
