"""collector=folder: learn from rollouts that other processes write into a folder, such as `navrl collect`.

Every writer has a folder of its own in there, and counts its rollouts up. Nothing is written or deleted here,
so a learner that is killed finds again what it has read since its last checkpoint.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Unpack

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from navrl.collectors.sync import CollectorOptions, SyncCollector
from navrl.config.checks import ConfigError, require_number, require_whole
from navrl.storage.files import UnsafePath
from navrl.storage.header import CorruptFile
from navrl.storage.rollouts import iteration_of, load_rollout, rollout_files, rollout_header
from navrl.storage.schema import CheckpointMismatch, Having, Named, check, text, whole

INBOX = "inbox"  # of a run directory
WEIGHTS = "weights_sha256"  # beside "policy_version" in a rollout: which policy has collected it
_VERSION = "policy_version"
_MOST_LAG = 64
_LOOK_EVERY_S = 0.05
_SILENT_S = 10.0  # until a sentence says what is waited for
_MOST_EXTRA = 1 << 20  # bytes of a file besides its tensors
_STATE = Having(
    {
        "versions": Named(whole(), "[0-9a-f]{64}"),
        "taken": Named(whole()),
        "last": text(".*", "a string"),
    },
    others=False,
)


class NoRollouts(TimeoutError):  # noqa: N818 (it says what it is without a suffix)
    """The end of a wait for rollouts; the message is one sentence for the user."""


class _Refused(ValueError):  # noqa: N818 (it says what it is without a suffix)
    """A reason for which a rollout is not learned from, for all rollouts of its kind."""


class FolderCollector(SyncCollector):
    """A collector of (N, T) frames of one of the learner's last policies, from files in order, each once."""

    reads_inbox = True  # it needs `inbox`

    def __init__(
        self,
        *,
        path: str | None,
        max_lag: int,
        rho_clip: float,
        c_clip: float,
        wait_s: float,
        inbox: Path | None,
        **options: Unpack[CollectorOptions],
    ) -> None:
        require_whole("collector.max_lag", max_lag, 0, _MOST_LAG)
        require_number("collector.wait_s", wait_s, above=0.0)
        for name, limit in (("rho_clip", rho_clip), ("c_clip", c_clip)):
            require_number(f"collector.{name}", limit, above=0.0)
        if path is None and inbox is None:
            raise ConfigError(
                "collector = folder without a run; expected a collector that plays; change collector"
            )
        if path is None and Path(str(inbox)).is_symlink():
            raise UnsafePath(Path(str(inbox)), "a link", "a folder")
        super().__init__(**options)
        self.lag, self.folder = max_lag, Path(path) if path is not None else Path(str(inbox))
        self._wait_s = wait_s
        self._num_rollouts = options["total_frames"] // self._final_rollout.numel()
        self._schema = self._final_rollout.exclude(_VERSION).to_dict()
        self._stopped: Callable[[], bool] = lambda: False
        self._versions: dict[str, int] = {}  # of the newest policies, by their weights
        self._taken: dict[str, int] = {}  # the last number of every writer
        self._last = ""  # the writer of the last rollout
        self._refused: Counter[str] = Counter()
        self._metrics: dict[str, float] = {}

    def stop_when(self, stopped: Callable[[], bool]) -> None:
        """End the iteration as soon as `stopped` returns true while nothing is there to learn from."""
        self._stopped = stopped

    def iterator(self) -> Iterator[TensorDictBase]:
        """Yield rollouts that carry the learner's number of the version that collected them."""
        for _ in range(self._num_rollouts):
            rollout = self._awaited()
            if rollout is None:
                return
            yield rollout

    def _awaited(self) -> TensorDictBase | None:
        """Return the next rollout; None if the training stops before there is one."""
        version = getattr(self.policy, "version", 0)
        self._versions[sha256_of(self.policy.state_dict())] = version
        self._versions = {s: v for s, v in self._versions.items() if v >= version - self.lag}
        began, silent = time.monotonic(), False
        while (rollout := self._next()) is None:
            waited_s = time.monotonic() - began
            if self._stopped():
                return None
            if waited_s > self._wait_s:
                raise NoRollouts(self._silence(waited_s))
            if waited_s > _SILENT_S and not silent:
                silent = True
                warnings.warn(f"{self._silence(waited_s)}; waiting", stacklevel=2)
            time.sleep(_LOOK_EVERY_S)
        self._metrics["time/wait"] = time.monotonic() - began
        return rollout

    def _silence(self, waited_s: float) -> str:
        refused = sum(self._refused.values())
        others = f" that can be learned from, {refused} were refused" if refused else ""
        return (
            f"no rollout in {self.folder} for {waited_s:.0f} s{others}; expected files of `navrl collect` "
            "with the newest checkpoint of this run; start it, or change collector.path or collector.wait_s"
        )

    def _next(self) -> TensorDictBase | None:
        """Return the oldest rollout of the writer whose turn it is; None if no writer has one."""
        unread = self._unread()
        while unread:
            later = [name for name in sorted(unread) if name > self._last]
            writer = later[0] if later else min(unread)
            path = unread[writer].pop(0)
            if not unread[writer]:
                del unread[writer]
            self._last, self._taken[writer] = writer, iteration_of(path)
            try:
                rollout = self._read(path)
            except FileNotFoundError:  # its writer keeps the newest ones only
                continue
            except (_Refused, CorruptFile, CheckpointMismatch, OSError) as error:
                self._refuse(writer, path, error)
                continue
            self._metrics["sync/unread_rollouts"] = float(sum(map(len, unread.values())))
            return rollout
        return None

    def _unread(self) -> dict[str, list[Path]]:
        """Return the files of every writer that were not read, oldest first; a link is no folder."""
        try:
            with os.scandir(self.folder) as entries:
                names = [each.name for each in entries if each.is_dir(follow_symlinks=False)]
        except FileNotFoundError:  # not yet, or a shared disk that is away for a moment
            return {}
        found: dict[str, list[Path]] = {}
        for name in names:
            with contextlib.suppress(OSError):
                files = rollout_files(self.folder / name)
                least = self._taken.get(name, -1)
                found[name] = [path for path in files if iteration_of(path) > least]
        self._taken = {name: number for name, number in self._taken.items() if name in names}
        return {name: files for name, files in found.items() if files}

    def _refuse(self, writer: str, path: Path, error: Exception) -> None:
        """Count a file that is not learned from; the first of a writer for a reason gets a sentence."""
        kind = f"{writer} {error if isinstance(error, _Refused) else type(error).__name__}"
        self._refused[kind] += 1
        if self._refused[kind] == 1:
            named = str(error) if str(error).startswith(str(path)) else f"{path}: {error}"
            warnings.warn(f"not learned from, nor from others like it: {named}", stacklevel=2)

    def _read(self, path: Path) -> TensorDictBase:
        """Return the rollout in a file, which anybody may have written, or raise about it."""
        if not stat.S_ISREG(path.lstat().st_mode):
            raise _Refused("it is a link, a pipe or a device; expected a file")
        size = [*self._final_rollout.batch_size]
        most = _MOST_EXTRA + 8 * self._final_rollout.numel() + self._final_rollout.bytes()
        meta = rollout_header(path, most).meta
        if meta["batch_size"] != size:
            raise _Refused(
                f"it holds {' x '.join(map(str, meta['batch_size']))} frames; expected "
                f"{' x '.join(map(str, size))}; give navrl collect the num_envs and rollout_steps of this run"
            )
        weights = {tuple(key): value for key, value in meta["values"]}.get((WEIGHTS,))
        version = self._versions.get(str(weights))
        if version is None:
            raise _Refused(
                f"it was not collected by one of the last {self.lag + 1} policies of this run; expected "
                "newer weights; raise collector.max_lag, or save more often with checkpoint.save_every"
            )
        frames = load_rollout(path, max_bytes=most).exclude(_VERSION, WEIGHTS)
        self._check(frames)
        self._final_rollout.update_(frames)
        rollout: TensorDictBase = self._final_rollout.copy()
        return rollout.set_non_tensor(_VERSION, version)

    def _check(self, frames: TensorDict) -> None:
        """Raise unless the frames are such as the env and the policy of this run make."""
        check(frames.to_dict(), self._schema, "its content")
        if not self._has_actions_of(frames):
            raise _Refused("it has actions that this env does not have")
        ahead = frames.get("next")
        ends = ahead.get("terminated") | ahead.get("truncated")
        if not torch.equal(ends, ahead.get("done")):
            raise _Refused("its episodes are done without an end, or end without being done")

    def metrics(self) -> dict[str, float]:
        """Return the seconds waited, and how many rollouts are left to read and were refused so far."""
        return {**self._metrics, "sync/refused_rollouts": float(sum(self._refused.values()))}

    def runtime_state(self) -> dict[str, Any]:
        """Return which rollouts were read, and the newest policies, beside what a sync collector needs."""
        read = {"versions": dict(self._versions), "taken": dict(self._taken), "last": self._last}
        return {**super().runtime_state(), "folder": read}

    def load_runtime_state(self, runtime: dict[str, Any]) -> None:
        """Restore what runtime_state returned, or the part that was saved; the env here stays at rest."""
        if "carrier" in runtime:
            super().load_runtime_state(runtime)
        saved = runtime.get("folder")
        if saved is not None:
            check(saved, _STATE, "collector/folder")
            self._versions, self._taken = dict(saved["versions"]), dict(saved["taken"])
            self._last = saved["last"]


def sha256_of(weights: Mapping[str, Tensor]) -> str:
    """Return a digest of these weights: the same for the same policy in any process."""
    digest = hashlib.sha256()
    for name in sorted(weights):
        numbers = weights[name].detach().cpu().contiguous().reshape(-1)
        digest.update(f"{name} {numbers.dtype} ".encode())
        digest.update(numbers.view(torch.uint8).numpy().data)
    return digest.hexdigest()
