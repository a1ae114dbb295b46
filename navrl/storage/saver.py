"""Saves the state of a run now and then, and keeps the newest and the best."""

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from navrl.storage import atomic
from navrl.storage.checkpoint import (
    Content,
    Facts,
    checked_facts,
    flat,
    intact_facts,
    write_content,
)
from navrl.storage.container import Compress, CorruptFile
from navrl.storage.directory import BEST, LATEST, checkpoints, step_name, write_pointer

ON_ERROR = ("continue", "stop")
COMPRESS = tuple(each.value for each in Compress)


class SaveFailed(OSError):  # noqa: N818 (it says what it is without a suffix)
    """A checkpoint that was not written; those before it are untouched."""


class CheckpointSaver:
    """Writes checkpoints into one directory, of which it is the only writer."""

    def __init__(
        self,
        *,
        directory: Path,
        keep_last: int,
        keep_best: int,
        save_every: int,
        on_error: str,
        compress: str,
    ) -> None:
        """`save_every` counts iterations; the newest and the best by stage and score are kept.

        What to do about a save that fails is the caller's to decide, by `on_error`.
        """
        if on_error not in ON_ERROR:
            raise ValueError(
                f"checkpoint.on_error = {on_error}; expected {' or '.join(ON_ERROR)}; "
                "change checkpoint.on_error"
            )
        if compress not in COMPRESS:
            raise ValueError(
                f"checkpoint.compress = {compress}; expected {', '.join(COMPRESS)}; "
                "change checkpoint.compress"
            )
        for option, value, least in (
            ("keep_last", keep_last, 1),
            ("keep_best", keep_best, 0),
            ("save_every", save_every, 1),
        ):
            if value < least:
                raise ValueError(f"checkpoint.{option} = {value} must be at least {least}")
        self.directory = Path(directory)
        self.keep_last = keep_last
        self.keep_best = keep_best
        self.save_every = save_every
        self.on_error = on_error
        self.compress = Compress(compress)
        atomic.make_directory(self.directory)
        atomic.sweep(self.directory)
        # Damaged files do not count, else an intact one would be deleted to keep them.
        facts = {path.name: intact_facts(path) for path in checkpoints(self.directory)}
        self._saved: dict[str, Facts] = {name: fact for name, fact in facts.items() if fact}
        self._best: tuple[str, str] | None = None  # name and sha256 that the pointer shows

    @property
    def saved_frames(self) -> int | None:
        """Frames of the newest checkpoint that is intact and durable."""
        return max((facts.frames for facts in list(self._saved.values())), default=None)

    def due(self, iteration: int) -> bool:
        """Whether to save after this iteration; the first one has number 1."""
        return iteration > 0 and iteration % self.save_every == 0

    def save(
        self, state: Mapping[str, Any], *, frames: int, score: float | None, stage: int = 0
    ) -> Path:
        """Write `state`; on return the file is durable and shares no memory with `state`."""
        return self.write(flat(state, frames=frames, score=score, stage=stage))

    def write(self, content: Content, threads: int | None = None) -> Path:
        """Write what was flattened before; pointers move only once the file was read back.

        Without `threads` as many work on a large state as there are cores.
        """
        name = step_name(content.frames)
        path = self.directory / name
        facts = write_content(path, content, self.compress, threads)
        self._saved.pop(name, None)  # an older one of this name is gone, whatever this one is
        _read_back(path, facts, threads)
        self._saved[name] = facts
        write_pointer(self.directory, LATEST, name, self._saved[name].sha256)
        ranking = self._ranking()
        if ranking:
            self._point_to_best(ranking[0])
        self._prune({name, *ranking[: max(self.keep_best, 1)]})
        return path

    def metrics(self) -> dict[str, float]:
        """Nothing that the caller does not see: a save is over when it returns."""
        return {}

    def flush(self) -> None:
        """Do nothing: every save has finished when it returns."""

    def close(self) -> None:
        """Do nothing: every save has finished when it returns."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _ranking(self) -> list[str]:
        """Names of the scored checkpoints, best first; of equal ranks the newer one leads."""
        keys = [
            (facts.rank, facts.frames, name)
            for name, facts in self._saved.items()
            if facts.rank is not None
        ]
        return [name for _, _, name in sorted(keys, reverse=True)]

    def _point_to_best(self, name: str) -> None:
        best = (name, self._saved[name].sha256)
        if best != self._best:
            write_pointer(self.directory, BEST, *best)
            self._best = best

    def _prune(self, wanted: set[str]) -> None:
        """Delete what is neither wanted nor among the newest; the last save is durable by now."""
        newest = sorted(self._saved, key=lambda name: self._saved[name].frames, reverse=True)
        for name in self._saved.keys() - wanted - set(newest[: self.keep_last]):
            (self.directory / name).unlink(missing_ok=True)
            del self._saved[name]


def _read_back(path: Path, facts: Facts, threads: int | None) -> None:
    """Raise unless the file holds what was written; a wrong one is deleted, as nobody can use it."""
    try:
        found = checked_facts(path, threads)
        if found != facts:
            raise CorruptFile(path, "header", f"holds {found}, written was {facts}")
    except CorruptFile as error:
        path.unlink(missing_ok=True)
        raise SaveFailed(f"not what was written: {error}") from error


class NullSaver:
    """Saves nothing: for runs that leave no checkpoint."""

    on_error = "continue"
    saved_frames = None

    def __init__(self, *, directory: Path) -> None:
        self.directory = Path(directory)

    def due(self, iteration: int) -> bool:
        """Never."""
        return False

    def save(
        self, state: Mapping[str, Any], *, frames: int, score: float | None, stage: int = 0
    ) -> None:
        """Do nothing."""

    def metrics(self) -> dict[str, float]:
        """None."""
        return {}

    def flush(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing."""
