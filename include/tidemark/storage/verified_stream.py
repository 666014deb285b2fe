"""A stream that is checked against a SHA-256 while it is read."""

from __future__ import annotations

import hashlib
from typing import BinaryIO, Protocol

from tidemark.errors import ConflictError
from tidemark.storage.contract import StoredObject

#: What to do when an object changed between its listing and its use.
FIX_CHANGED = "wait until the exporter has written it whole, then run the hour again"


class Readable(Protocol):
    """What a copy needs of its source."""

    def read(self, size: int = -1, /) -> bytes: ...


class VerifiedStream:
    """Its end is a ConflictError when the bytes read are not those of the SHA-256."""

    def __init__(self, stream: BinaryIO, stored: StoredObject, sha256: str) -> None:
        self._stream, self._stored, self._sha256 = stream, stored, sha256
        self._digest = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        """``size`` bytes, fewer only at the end."""
        parts, left = [], size
        while left:
            part = self._stream.read(left)
            if not part:
                self._verify()
                break
            self._digest.update(part)
            parts.append(part)
            left -= len(part) if size > 0 else 0
        return b"".join(parts)

    def _verify(self) -> None:
        if self._digest.hexdigest() != self._sha256:
            raise ConflictError("changed while it was copied", object=self._stored.location, fix=FIX_CHANGED)
