"""One checkpoint: the state tree of a run in a container, with the frames, stage and score it had."""

import math
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from navrl.storage import container, tree
from navrl.storage.container import Compress, CorruptFile, ForeignFile
from navrl.storage.directory import frames_of

_KIND = "checkpoint"


class Facts(NamedTuple):
    """What is known of an intact checkpoint besides its state."""

    frames: int
    stage: int  # of the curriculum, in which the score was made
    score: float | None
    sha256: str

    @property
    def rank(self) -> tuple[int, float] | None:
        """What `best` goes by: any score is better than those of an earlier stage, which is easier."""
        return None if self.score is None else (self.stage, self.score)


class Content(NamedTuple):
    """A state as `tree.flatten` gives it, and what it is known by."""

    tensors: Mapping[str, Tensor]
    skeleton: Any
    frames: int
    stage: int
    score: float | None  # finite


def flat(state: Mapping[str, Any], *, frames: int, score: float | None, stage: int = 0) -> Content:
    """What to write of a state; its tensors are still those of the state."""
    if score is not None:
        score = float(score) if math.isfinite(score) else None  # as good as none
    return Content(*tree.flatten(dict(state)), frames, stage, score)


def write_content(
    path: Path,
    content: Content,
    compress: Compress = Compress.NOTHING,
    threads: int | None = None,
) -> Facts:
    """Write one checkpoint atomically and durably."""
    tensors, skeleton, frames, stage, score = content
    meta = {"kind": _KIND, "frames": frames, "stage": stage, "score": score, "tree": skeleton}
    sha256 = container.write(path, tensors, meta, compress=compress, threads=threads)
    return Facts(frames, stage, score, sha256)


def write_state(
    path: Path, state: Mapping[str, Any], *, frames: int, score: float | None, stage: int = 0
) -> Facts:
    """Write one checkpoint atomically and durably; a score that is not finite counts as none."""
    return write_content(path, flat(state, frames=frames, score=score, stage=stage))


def load(path: Path) -> dict[str, Any]:
    """The state saved in `path`: fresh CPU tensors, a tuple for every NamedTuple."""
    state, *_ = _read(Path(path))
    return state


def intact_facts(path: Path) -> Facts | None:
    """The facts of a `step_<frames>.ckpt` file; None, and one warning, if it cannot be trusted."""
    try:
        return checked_facts(path.resolve())
    except (CorruptFile, OSError) as error:
        # Python shows a text once for each line it comes from: however often a start looks at the file, and
        # by whatever path, that is this line.
        warnings.warn(f"checkpoint skipped: {error}", RuntimeWarning, stacklevel=1)
        return None


def checked_facts(path: Path, threads: int | None = None) -> Facts:
    """The facts of a `step_<frames>.ckpt` file, every byte of which was read and checked."""
    _, frames, stage, score = _read(path, threads)
    if frames != frames_of(path.name):
        raise CorruptFile(path, "header", f"holds the state after {frames} frames")
    return Facts(frames, stage, score, container.read_digest(path))


def _read(path: Path, threads: int | None = None) -> tuple[dict[str, Any], int, int, float | None]:
    tensors, meta = container.read(path, threads=threads)
    if meta.get("kind") != _KIND:
        raise ForeignFile(path, f"is of kind {meta.get('kind')!r:.40}; expected '{_KIND}'")
    frames, stage, score = meta.get("frames"), meta.get("stage", 0), meta.get("score")
    scored = score is None or (type(score) is float and math.isfinite(score))  # JSON's 1e999 is inf
    if type(frames) is not int or type(stage) is not int or not scored:
        raise CorruptFile(
            path, "header", "frames and stage must be ints and score a finite float or null"
        )
    try:
        state = tree.unflatten(tensors, meta.get("tree"))
    except ValueError as error:
        raise CorruptFile(path, "header", f"malformed tree ({error})") from error
    if not isinstance(state, dict):
        raise CorruptFile(path, "header", "the tree is not a dict")
    return state, frames, stage, score
