"""What docker-compose.yaml's services need before they start: buckets, the administrator's password, Airflow's database.

Run again at any time.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import boto3
from botocore.exceptions import ClientError

from tidemark.settings import Settings


def make_buckets(settings: Settings) -> None:
    s3 = boto3.client("s3", endpoint_url=settings.s3_endpoint or None, region_name=settings.s3_region)
    for location in (settings.lake, settings.exports):
        try:
            s3.create_bucket(Bucket=location.removeprefix("s3://").partition("/")[0])
        except ClientError as error:
            if error.response["Error"]["Code"] not in ("BucketAlreadyOwnedByYou", "BucketAlreadyExists"):
                raise


def write_password() -> None:
    file = Path(os.environ["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"])
    file.touch(mode=0o600)
    file.write_text(json.dumps({"admin": os.environ["AIRFLOW_ADMIN_PASSWORD"]}))


if __name__ == "__main__":
    make_buckets(Settings())
    write_password()
    subprocess.run(["airflow", "db", "migrate"], check=True)
