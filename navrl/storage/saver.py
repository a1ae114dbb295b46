"""Savers: write checkpoints into the directory of a run, and keep the newest and the best."""

import logging
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self, TypedDict, Unpack

from navrl.config.checks import require_choice, require_flag, require_whole
from navrl.storage.checkpoint import (
    FlatState,
    flatten_state,
    verify,
    verify_or_warn,
    write_flat,
    write_pointer,
)
from navrl.storage.files import make_directory, prepare_directory
from navrl.storage.header import CorruptFile
from navrl.storage.info import BEST, LATEST, CheckpointInfo, checkpoint_files, checkpoint_name

_LOG = logging.getLogger(__name__)
ON_ERROR = ("continue", "stop")


class SaveFailed(OSError):  # noqa: N818 (the name is clear without a suffix)
    """A checkpoint that was not written; those before it are untouched."""


class SaverOptions(TypedDict):
    """The options of every saver that writes."""

    directory: Path
    keep_last: int  # the newest checkpoints that stay
    keep_best: int  # and the best ones, by stage and score
    save_every: int  # iterations
    on_error: str  # for the caller, about a save that fails
    compress: bool


class NullSaver:
    """A saver for runs that leave no checkpoint; the others inherit what they need not do."""

    on_error = "continue"

    def __init__(self, *, directory: Path) -> None:
        self.directory = Path(directory)

    @property
    def saved_frames(self) -> int | None:
        """Return the frames of the newest checkpoint that is intact and durable; None without one."""
        return None

    def due(self, iteration: int) -> bool:
        """Return whether to save after this iteration; the first one has number 1."""
        return False

    def save(
        self, state: Mapping[str, Any], *, frames: int, score: float | None, stage: int = 0
    ) -> Path | None:
        """Do nothing."""
        return None

    def metrics(self) -> dict[str, float]:
        """Return the costs of saving that its caller does not see: none."""
        return {}

    def flush(self) -> None:
        """Do nothing: every save has finished when it returns."""

    def close(self) -> None:
        """Do nothing: every save has finished when it returns."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.close()


class CheckpointSaver(NullSaver):
    """A saver that writes in the caller's thread, and is the only writer of its directory."""

    def __init__(self, **options: Unpack[SaverOptions]) -> None:
        require_choice("checkpoint.on_error", options["on_error"], ON_ERROR)
        require_flag("checkpoint.compress", options["compress"])
        require_whole("checkpoint.keep_last", options["keep_last"], 1)
        require_whole("checkpoint.keep_best", options["keep_best"], 0)
        require_whole("checkpoint.save_every", options["save_every"], 1)
        super().__init__(directory=options["directory"])
        self.keep_last, self.keep_best = options["keep_last"], options["keep_best"]
        self.save_every, self.compress = options["save_every"], options["compress"]
        self.on_error = options["on_error"]
        prepare_directory(self.directory)
        # Damaged files do not count, else an intact one would be deleted to keep them.
        found = {path.name: verify_or_warn(path) for path in checkpoint_files(self.directory)}
        self._saved: dict[str, CheckpointInfo] = {name: i for name, i in found.items() if i}
        self._best: tuple[str, str] | None = None  # name and sha256 in the pointer

    @property
    def saved_frames(self) -> int | None:
        """Return the frames of the newest checkpoint that is intact and durable."""
        return max((info.frames for info in list(self._saved.values())), default=None)

    def due(self, iteration: int) -> bool:
        """Return whether to save after this iteration: every `save_every`-th."""
        return iteration > 0 and iteration % self.save_every == 0

    def save(
        self, state: Mapping[str, Any], *, frames: int, score: float | None, stage: int = 0
    ) -> Path:
        """Write `state`; on return the file is durable and shares no memory with `state`."""
        return self.write(flatten_state(state, frames=frames, score=score, stage=stage))

    def write(self, flat: FlatState, threads: int | None = None) -> Path:
        """Write a flattened state; pointers move only once the file was read back."""
        self._restore_directory()
        name = checkpoint_name(flat.frames)
        path = self.directory / name
        info = write_flat(path, flat, self.compress, threads)
        self._saved.pop(name, None)  # an older file of this name is gone, whatever this one holds
        _read_back(path, info, threads)
        self._saved[name] = info
        write_pointer(self.directory, LATEST, name, self._saved[name].sha256)
        ranking = self._ranking()
        if ranking:
            self._point_to_best(ranking[0])
        self._prune({name, *ranking[: max(self.keep_best, 1)]})
        return path

    def _restore_directory(self) -> None:
        """Make the directory again, and forget its checkpoints, if it was deleted."""
        if not self.directory.is_dir():
            make_directory(self.directory)
            self._saved.clear()
            self._best = None
            _LOG.warning("%s was deleted while the run went on; it is made again", self.directory)

    def _ranking(self) -> list[str]:
        """Return the names of the scored checkpoints, best first; of equal ranks the newer one leads."""
        keys = [
            (info.rank, info.frames, name)
            for name, info in self._saved.items()
            if info.rank is not None
        ]
        return [name for _, _, name in sorted(keys, reverse=True)]

    def _point_to_best(self, name: str) -> None:
        best = (name, self._saved[name].sha256)
        if best != self._best:
            write_pointer(self.directory, BEST, *best)
            self._best = best

    def _prune(self, wanted: set[str]) -> None:
        """Delete files that are neither wanted nor among the newest; the last save is durable by now."""
        newest = sorted(self._saved, key=lambda name: self._saved[name].frames, reverse=True)
        for name in self._saved.keys() - wanted - set(newest[: self.keep_last]):
            (self.directory / name).unlink(missing_ok=True)
            del self._saved[name]


def _read_back(path: Path, info: CheckpointInfo, threads: int | None) -> None:
    """Raise SaveFailed unless the file holds what was written; a wrong file is deleted."""
    try:
        # However little memory is free: it is no stranger's file.
        found = verify(path, threads, max_bytes=sys.maxsize)
        if found != info:
            raise CorruptFile(path, "header", f"holds {found}, written was {info}")
    except CorruptFile as error:
        path.unlink(missing_ok=True)
        raise SaveFailed(f"not what was written: {error}") from error
