"""Whole folders of files or objects, through pyarrow. Single objects are the work of :mod:`tidemark.storage.objects`."""

from __future__ import annotations

from datetime import datetime

from pyarrow import fs

from tidemark.settings import Settings


def filesystem(location: str, settings: Settings) -> tuple[fs.FileSystem, str]:
    """The file system that holds a location, and the location's path in it."""
    if not location.startswith("s3://"):
        return fs.LocalFileSystem(), location
    endpoint = settings.s3_endpoint or None
    return fs.S3FileSystem(endpoint_override=endpoint, region=settings.s3_region), location.removeprefix("s3://")


def files_under(location: str, settings: Settings) -> dict[str, datetime]:
    """All files of a folder and its folders, by their path relative to it, and when each was written."""
    system, root = filesystem(location, settings)
    found = system.get_file_info(fs.FileSelector(root, recursive=True, allow_not_found=True))
    return {info.path[len(root) + 1 :]: info.mtime for info in found if info.type == fs.FileType.File}


def remove_file(location: str, settings: Settings) -> None:
    """Remove one file that is there."""
    system, path = filesystem(location, settings)
    system.delete_file(path)


def remove_folder(location: str, settings: Settings) -> None:
    """Remove a folder that is there, with all in it."""
    system, path = filesystem(location, settings)
    system.delete_dir(path)
