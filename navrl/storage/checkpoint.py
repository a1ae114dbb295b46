"""Checkpoints: the state of a run in a container called step_<frames>.ckpt, and the files beside it.

The pointers `latest` and `best` are one line of JSON with a file name and its sha256, for people and scripts.
Nothing here trusts them: resuming looks at the checkpoints themselves.
"""

import json
import math
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from navrl.storage import container, tree
from navrl.storage.files import write_atomically
from navrl.storage.header import CorruptFile
from navrl.storage.info import KIND, CheckpointInfo, facts_of, frames_of
from navrl.storage.schema import (
    ANYTHING,
    TENSOR,
    Each,
    Either,
    Having,
    Named,
    check,
    check_finite,
    loading,
    text,
    whole,
)


class FlatState(NamedTuple):
    """A state as `tree.flatten` gives it, with the facts that are stored beside it."""

    tensors: Mapping[str, Tensor]
    skeleton: Any
    frames: int
    stage: int
    score: float | None  # finite


def flatten_state(
    state: Mapping[str, Any], *, frames: int, score: float | None, stage: int = 0
) -> FlatState:
    """Return the content of a checkpoint; its tensors are still those of the state."""
    if score is not None:
        score = float(score) if math.isfinite(score) else None  # as good as none
    return FlatState(*tree.flatten(dict(state)), frames, stage, score)


def write_flat(
    path: Path, flat: FlatState, compress: bool = False, threads: int | None = None
) -> CheckpointInfo:
    """Write one checkpoint atomically and durably."""
    tensors, skeleton, frames, stage, score = flat
    meta = {"kind": KIND, "frames": frames, "stage": stage, "score": score, "tree": skeleton}
    sha256 = container.write(path, tensors, meta, compress=compress, threads=threads)
    return CheckpointInfo(frames, stage, score, sha256)


def write_state(
    path: Path, state: Mapping[str, Any], *, frames: int, score: float | None, stage: int = 0
) -> CheckpointInfo:
    """Write one checkpoint atomically and durably; a score that is not finite counts as none."""
    return write_flat(path, flatten_state(state, frames=frames, score=score, stage=stage))


def load(path: Path) -> dict[str, Any]:
    """Return the state saved in `path`: fresh CPU tensors, a tuple for every NamedTuple."""
    state, *_ = _read(Path(path))
    return state


_TEXT = text(".*", "a string")
# The parts of a checkpoint that commands use, besides the weights of the policy.
_POLICY = {
    "agent": Having({"policy": Named(TENSOR)}),
    "config": Having({}, {"env": Named(ANYTHING), "agent": Named(ANYTHING)}),
    "choices": Named(Either(None, Either(_TEXT, Each(_TEXT)))),
    "frames": whole(),
    "iteration": whole(),
}


def load_policy_state(path: Path) -> dict[str, Any]:
    """Return the state in a checkpoint of a run or in an exported policy, once its parts were checked."""
    state = load(path)
    check_policy_state(state, str(path))
    return state


def check_policy_state(state: Any, origin: str) -> None:
    """Raise CheckpointMismatch unless the state holds a finite policy, and where it comes from."""
    with loading(origin):
        check(state, Having(_POLICY), "checkpoint")
    check_finite(state["agent"]["policy"], origin)


def verify(path: Path, threads: int | None = None, max_bytes: int | None = None) -> CheckpointInfo:
    """Read and check every byte of a `step_<frames>.ckpt` file; raise CorruptFile if it is damaged."""
    _, frames, stage, score = _read(path, threads, max_bytes)
    if frames != frames_of(path.name):
        raise CorruptFile(path, "header", f"holds the state after {frames} frames")
    return CheckpointInfo(frames, stage, score, container.read_digest(path))


def verify_or_warn(path: Path) -> CheckpointInfo | None:
    """Return None, after one warning, for a checkpoint that cannot be trusted."""
    try:
        return verify(path.resolve())
    except (CorruptFile, OSError) as error:
        # Python shows a text once for each line that it comes from: however often and by whatever path a
        # start looks at the file, that is this line.
        warnings.warn(f"checkpoint skipped: {error}", RuntimeWarning, stacklevel=1)
        return None


def _read(
    path: Path, threads: int | None = None, max_bytes: int | None = None
) -> tuple[dict[str, Any], int, int, float | None]:
    tensors, meta = container.read(path, max_bytes, threads=threads)
    frames, stage, score = facts_of(path, meta)
    try:
        state = tree.unflatten(tensors, meta.get("tree"))
    except ValueError as error:
        raise CorruptFile(path, "header", f"malformed tree ({error})") from error
    if not isinstance(state, dict):
        raise CorruptFile(path, "header", "the tree is not a dict")
    return state, frames, stage, score


def write_pointer(directory: Path, pointer: str, name: str, sha256: str) -> None:
    """Let the pointer file name one checkpoint."""
    write_atomically(directory / pointer, json.dumps({"file": name, "sha256": sha256}) + "\n")
