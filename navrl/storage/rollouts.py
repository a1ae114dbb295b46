"""Rollouts on disk: one file for each rollout that is kept, to look at or learn from later."""

import re
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from tensordict import TensorDict, TensorDictBase

from navrl.config.checks import require_flag, require_whole
from navrl.storage import container
from navrl.storage.files import make_directory, prepare_directory
from navrl.storage.header import CorruptFile, Header, read_header
from navrl.storage.memory import usable_bytes
from navrl.storage.rollout_format import KIND, Key, check_meta, needed_tensors, pack, unpack

_NAME = re.compile(r"rollout_(\d{6,12})\.nvrl")
_TIME_AXIS = 1
# The errors of TensorDict about sizes and names that do not fit together.
_MISFITS = (ValueError, RuntimeError, LookupError, TypeError, AttributeError)


class RolloutStorage:
    """A storage that keeps every `save_every`th rollout, and is the only writer of its directory."""

    def __init__(
        self,
        *,
        directory: Path,
        save_every: int,
        keep_last: int | None,
        drop: Sequence[str],
        compress: bool,
    ) -> None:
        """Keep the newest `keep_last` files (None: all) without the keys in `drop`, such as next/reward."""
        require_whole("rollouts.save_every", save_every, 1)
        require_flag("rollouts.compress", compress)
        if keep_last is not None:
            require_whole("rollouts.keep_last", keep_last, 1)
        self.directory = Path(directory)
        self.save_every = save_every
        self.keep_last = keep_last
        self.drop = {tuple(key.split("/")) for key in drop}
        self.compress = compress
        prepare_directory(self.directory)

    def after(self, iteration: int, rollout: TensorDictBase, warn: Callable[[str], None]) -> None:
        """Save the rollout of every `save_every`th iteration; a full disk costs this file only."""
        if iteration % self.save_every:
            return
        try:
            if not self.directory.is_dir():
                make_directory(self.directory)
                warn(f"{self.directory} was deleted while the run went on; it is made again")
            self.save(rollout, iteration=iteration)
        except OSError as error:
            warn(f"rollout not saved ({error}); the run goes on and tries again")

    def save(self, rollout: TensorDictBase, *, iteration: int) -> Path:
        """Write one rollout; on return the file is durable, and files too many are gone."""
        path = self.directory / f"rollout_{iteration:06d}.nvrl"
        tensors, meta = pack(rollout, self.drop)
        meta |= {"kind": KIND, "iteration": iteration}
        container.write(path, tensors, meta, compress=self.compress, time_axis=_TIME_AXIS)
        self._prune(iteration)
        return path

    def _prune(self, newest: int) -> None:
        """Delete older files than the newest `keep_last`.

        Files of later iterations are left from before the run was resumed further back; they are overwritten
        in turn.
        """
        past = [path for path in rollout_files(self.directory) if iteration_of(path) <= newest]
        for path in past[: -self.keep_last] if self.keep_last else []:
            path.unlink(missing_ok=True)


class NullRollouts:
    """A storage that keeps nothing."""

    def __init__(self, *, directory: Path) -> None:
        self.directory = Path(directory)

    def after(self, iteration: int, rollout: TensorDictBase, warn: Callable[[str], None]) -> None:
        """Do nothing."""


def rollout_files(directory: Path) -> list[Path]:
    """Return the rollouts in a directory, intact or not, in the order of their iterations."""
    return sorted(
        (path for path in directory.iterdir() if _NAME.fullmatch(path.name)), key=iteration_of
    )


def iteration_of(path: Path) -> int:
    """Return the iteration in the name of a rollout."""
    match = _NAME.fullmatch(path.name)
    if match is None:
        raise ValueError(f"{path.name!r} is not the name of a rollout like 'rollout_000050.nvrl'")
    return int(match[1])


def load_rollout(
    path: Path,
    keys: Collection[str | Key] | None = None,
    mmap: bool = False,
    max_bytes: int | None = None,
) -> TensorDict:
    """Return the rollout in a file, with its batch size; or only `keys` of it, such as ("next", "reward").

    A string is a key of the first level, or several with slashes between. With `mmap` tensors that are not
    compressed stay in the file's memory. Rows that "next" repeats count towards `max_bytes`.
    """
    path = Path(path)
    header = rollout_header(path, max_bytes)
    meta = header.meta
    chosen = None if keys is None else [_key(key) for key in keys]
    rows = header.rows
    if chosen is not None:
        rows = [rows[number] for number in needed_tensors(meta, chosen)]
    names = [row.name for row in rows]
    tensors, again = container.read(path, max_bytes, names=names, mapped=mmap)
    numbers = {row.name: number for number, row in enumerate(header.rows)}
    try:
        if again != meta:
            raise ValueError("the file was replaced while it was read; read it again")
        return unpack({numbers[name]: tensors[name] for name in tensors}, meta, chosen)
    except _MISFITS as error:
        raise CorruptFile(path, "header", f"not a rollout that fits together ({error})") from error


def rollout_header(path: Path, max_bytes: int | None = None) -> Header:
    """Return the checked header of a rollout; the tensors are not looked at."""
    max_bytes = usable_bytes() if max_bytes is None else max_bytes
    header = read_header(path, max_bytes)
    check_meta(path, header.meta, header.rows, max_bytes)
    return header


def _key(key: str | Key) -> Key:
    return tuple(key.split("/")) if isinstance(key, str) else tuple(key)
