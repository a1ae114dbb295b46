"""A folder of pages that needs no server: an index, replays, reports and leagues, linked relatively."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from navrl.config.checks import ConfigError, printable
from navrl.storage.files import UnsafePath, make_directory, read_json, to_json, write_atomically
from navrl.view.html import GALLERY, page

MANIFEST = "gallery.json"
INDEX = "index.html"
_MOST_BYTES = 200_000_000  # of all pages
_MOST_FILES = 1000
_LONGEST_NAME = 80


class Page(NamedTuple):
    """A file of an entry, and the link that leads to it."""

    file: str  # in the folder of the entry
    content: str
    name: str
    text: str


class Entry(NamedTuple):
    """A run or a policy in the gallery."""

    title: str
    about: str
    scores: Sequence[str]
    pages: Sequence[Page]
    curve: Mapping[str, Any] | None = None  # a chart of a report
    frames: Sequence[int] = ()  # its axis
    league: str | None = None  # SVG


class Gallery:
    """A gallery in a folder, of which only files that a gallery has written are ever replaced."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.written: list[Path] = []
        self._bytes = 0
        self._own = self._listed()
        self._slugs: set[str] = set()
        self._entries: list[dict[str, Any]] = []
        self._require_free(INDEX)

    def add(self, entry: Entry) -> None:
        """Write the pages of an entry."""
        slug = self._slug(entry.title)
        files = [*entry.pages]
        if entry.league is not None:
            files.append(Page("league.svg", entry.league, "league", "the matrix as a picture"))
        for each in files:
            self._write(f"{slug}/{each.file}", each.content)
        self._entries.append(
            {
                **{"title": entry.title, "about": entry.about, "scores": [*entry.scores]},
                "links": [
                    {"file": f"{slug}/{each.file}", "name": each.name, "text": each.text}
                    for each in files
                ],
                **{"curve": entry.curve, "frames": [*entry.frames], "league": entry.league},
            }
        )

    def finish(self, *, title: str, subtitle: str) -> Path:
        """Write the index and return it."""
        data = {"title": title, "subtitle": subtitle, "entries": self._entries}
        self._write(INDEX, page(GALLERY, data))
        return self.folder / INDEX

    def _listed(self) -> set[str]:
        """Return the files that an earlier gallery has written here; raise ConfigError in other folders."""
        if self.folder.is_symlink():
            raise UnsafePath(self.folder, "a link", "a folder")
        if not self.folder.exists() or (self.folder.is_dir() and not any(self.folder.iterdir())):
            return set()
        try:
            found = read_json(self.folder / MANIFEST)["files"]
            return {name for name in found if isinstance(name, str)}
        except UnsafePath:
            raise
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise ConfigError(
                f"{self.folder} is there and holds no gallery; expected a new folder, an empty one or a "
                "gallery; change --into"
            ) from error

    def _require_free(self, name: str) -> None:
        path = self.folder / name
        if name not in self._own and (path.exists() or path.is_symlink()):
            raise ConfigError(
                f"{path} was not written by navrl gallery and would be lost; expected another name; "
                "move it away or change --into"
            )

    def _write(self, name: str, content: str) -> None:
        """Write a file that is listed before it is there, so that a gallery that was stopped can go on."""
        self._require_free(name)
        data = content.encode()
        self._bytes += len(data)
        if self._bytes > _MOST_BYTES or len(self.written) >= _MOST_FILES:
            raise ConfigError(
                f"the gallery would hold more than {_MOST_BYTES // 1_000_000} MB or {_MOST_FILES} files; "
                "expected less; name fewer runs"
            )
        path = self.folder / name
        for folder in (self.folder, path.parent):
            make_directory(folder)
        self._own.add(name)
        listed = {"written by": "navrl gallery", "files": sorted(self._own)}
        write_atomically(self.folder / MANIFEST, to_json(listed, indent=2) + "\n")
        write_atomically(path, data)
        self.written.append(path)

    def _slug(self, title: str) -> str:
        """Return a name for a folder: neither hidden nor a path, and no other entry's."""
        plain = re.sub(r"[^\w.-]+", "-", title, flags=re.ASCII).strip("-.")[:_LONGEST_NAME]
        slug = first = plain or "run"
        number = 2
        while slug.lower() in self._slugs | {INDEX, MANIFEST}:
            slug, number = f"{first}-{number}", number + 1
        self._slugs.add(slug.lower())
        return slug


def plain(text: str, length: int = 300) -> str:
    """Return text from files of runs as it can be shown."""
    return printable(text)[:length]
