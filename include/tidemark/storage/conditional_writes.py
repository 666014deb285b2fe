"""Whether a storage keeps the condition on which states, manifests and offsets of hours rely: to write only where none is."""

from __future__ import annotations

from tidemark.errors import ConfigError
from tidemark.settings import Settings
from tidemark.storage.contract import CONDITIONAL_WRITES
from tidemark.storage.objects import storage_of

_TEXT = "Tidemark tries on this object whether its storage writes only where none is.\n"


def require_conditional_writes(root: str, settings: Settings) -> None:
    """ConfigError where an object below a root is written over though asked to write only where none is. Leaves a small
    object there, on which this can be tried at any time."""
    location = f"{root}/_conditional_writes"
    storage = storage_of(location, settings)
    storage.write_new(location, _TEXT)
    if storage.write_new(location, _TEXT):
        problem = "the storage writes over an object that is there, though asked to write only where none is"
        raise ConfigError(problem, fix=CONDITIONAL_WRITES, object=location)
