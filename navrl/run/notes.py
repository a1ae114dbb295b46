"""Tags and the note of a run, which its owner gives it afterwards, in notes.json."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from navrl.config.checks import ConfigError, printable
from navrl.storage.files import parse_json, read_text, to_json, write_atomically

_FILE = "notes.json"
_MOST_BYTES = 64 << 10
_MOST_TAGS = 32
_MOST_NOTE = 2000  # characters
_TAG = re.compile(r"[\w.+-]{1,40}")


class Notes(NamedTuple):
    """The words and the sentence that a run was given."""

    tags: tuple[str, ...] = ()
    note: str = ""


def read_notes(run: Path) -> Notes:
    """Return the tags and the note; what is no tag is left out, and what is too long is cut."""
    path = run / _FILE
    if not (path.exists() or path.is_symlink()):
        return Notes()
    try:
        found = parse_json(read_text(path, _MOST_BYTES))
    except ValueError as error:
        raise ConfigError(
            f"{path} cannot be read ({error}); expected tags and a note as navrl runs writes them; "
            "remove the file"
        ) from error
    found = found if isinstance(found, dict) else {}
    tags, note = found.get("tags"), found.get("note")
    words = tags if isinstance(tags, list) else []
    kept = dict.fromkeys(word for word in words if isinstance(word, str) and _TAG.fullmatch(word))
    return Notes((*kept,)[:_MOST_TAGS], note[:_MOST_NOTE] if isinstance(note, str) else "")


def change_tags(run: Path, words: Sequence[str], *, remove: bool) -> Notes:
    """Add tags to a run, or take them away, and return what it has then."""
    for word in words:
        if not _TAG.fullmatch(word):
            raise ConfigError(
                f"tag = {printable(word)[:80]}; expected up to 40 letters, digits and . _ + -; change the tag"
            )
    before = read_notes(run)
    if remove:
        missing = [word for word in words if word not in before.tags]
        if missing:
            has = ", ".join(before.tags) or "none"
            raise ConfigError(
                f"{run} has no tag {missing[0]}; expected one of: {has}; name another"
            )
        tags = [word for word in before.tags if word not in words]
    else:
        tags = list(dict.fromkeys([*before.tags, *words]))
    if len(tags) > _MOST_TAGS:
        raise ConfigError(
            f"{run} would have {len(tags)} tags; expected at most {_MOST_TAGS}; remove some"
        )
    return _write(run, before._replace(tags=(*tags,)))


def write_note(run: Path, text: str) -> Notes:
    """Replace the note of a run; an empty text removes it."""
    if len(text) > _MOST_NOTE:
        raise ConfigError(
            f"the note has {len(text):,} characters; expected at most {_MOST_NOTE:,}; write less"
        )
    return _write(run, read_notes(run)._replace(note=text))


def _write(run: Path, notes: Notes) -> Notes:
    write_atomically(run / _FILE, to_json(notes._asdict(), indent=2) + "\n")
    return notes
