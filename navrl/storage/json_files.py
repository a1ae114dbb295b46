"""Small records: strict JSON, and files that are replaced whole."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path


def write_atomically(path: Path, text: str) -> None:
    """Write `text` so that `path` holds either the old or the new content, never half."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def to_json(value: object, indent: int | None = None) -> str:
    """Strict JSON; a number JSON cannot hold becomes null."""
    return json.dumps(_finite(value), indent=indent, allow_nan=False, ensure_ascii=False)


def _finite(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
