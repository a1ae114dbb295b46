"""Asynchronous checkpoints: the training loop copies the state in memory, and a thread writes it."""

import atexit
import contextlib
import logging
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Unpack

import torch
from torch import Tensor

from navrl.config.checks import require_choice, require_whole
from navrl.storage.checkpoint import FlatState, flatten_state
from navrl.storage.info import checkpoint_name
from navrl.storage.saver import CheckpointSaver, SaveFailed, SaverOptions

WHEN_FULL = ("wait", "drop_oldest", "fail")
# Leaves it a third of a core that others want too: training goes first, and saves still end.
_NICENESS = 5
_PATIENCE_S = 1.0  # for the file under way when the process is to end at once
_LOG = logging.getLogger(__name__)


class QueueFull(OSError):  # noqa: N818 (the name is clear without a suffix)
    """A save that found the queue full under checkpoint.when_full=fail."""


class Snapshot:
    """Memory for a copy of one state, valid until it is filled again."""

    def __init__(self) -> None:
        self._own: dict[str, Tensor] = {}

    def fill(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Copy `tensors` to the CPU; the copies alias neither them nor another snapshot.

        Memory is allocated only where a shape is new: fresh pages cost several times the copy.
        """
        self._own = {name: self._room(name, tensor) for name, tensor in tensors.items()}
        with torch.no_grad():
            # One call for all: the overhead of a call is more than copying a small tensor.
            torch._foreach_copy_([*self._own.values()], [*tensors.values()], non_blocking=True)
        if any(tensor.is_cuda for tensor in tensors.values()):
            torch.cuda.synchronize()  # one wait for all copies into pinned memory
        return dict(self._own)

    def _room(self, name: str, tensor: Tensor) -> Tensor:
        own = self._own.get(name)
        if own is not None and own.is_same_size(tensor) and own.dtype == tensor.dtype:
            return own
        return torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=tensor.is_cuda)


class _Job(NamedTuple):
    state: FlatState
    snapshot: Snapshot  # with the memory of the state's tensors


class AsyncSaver(CheckpointSaver):
    """A CheckpointSaver with a queue and a thread before its `write`.

    A snapshot belongs to the caller while it is filled, then to the queue, then to the thread while it is
    written, and then it is free again. There is one more than the queue has places. A save that failed raises
    in the next call.
    """

    def __init__(self, *, queue_size: int, when_full: str, **options: Unpack[SaverOptions]) -> None:
        require_whole("checkpoint.queue_size", queue_size, 1)
        require_choice("checkpoint.when_full", when_full, WHEN_FULL)
        super().__init__(**options)
        self.when_full, self.dropped, self.failed = when_full, 0, 0
        self._changed = threading.Condition()
        self._free = [Snapshot() for _ in range(queue_size + 1)]
        self._waiting: deque[_Job] = deque()
        self._writing = False
        self._closed = False
        self._thread: threading.Thread | None = None
        self._failure: Exception | None = None
        self._seconds = {"time/save_snapshot": 0.0, "time/save_wait": 0.0}

    @property
    def pending(self) -> int:
        """The number of saves that are not on the disk yet."""
        return len(self._waiting) + self._writing

    def save(
        self, state: Mapping[str, Any], *, frames: int, score: float | None, stage: int = 0
    ) -> Path:
        """Copy `state`, which may change from now on, and return the path that it will be written to.

        The error of an earlier save is raised here; this save is in the queue all the same.
        """
        if self._closed:
            raise ValueError("the saver is closed; a checkpoint after that would never be written")
        began = time.perf_counter()
        snapshot = self._room(frames)
        got_room = time.perf_counter()
        try:
            flat = flatten_state(state, frames=frames, score=score, stage=stage)
            flat = flat._replace(tensors=snapshot.fill(flat.tensors))
            self._start()
        except BaseException:
            self._give_back(snapshot)
            raise
        self._seconds["time/save_wait"] += got_room - began
        self._seconds["time/save_snapshot"] += time.perf_counter() - got_room
        with self._changed:
            failure, self._failure = self._failure, None
            self._waiting.append(_Job(flat, snapshot))
            self._changed.notify_all()
        if failure is not None:
            raise failure
        return self.directory / checkpoint_name(frames)

    def metrics(self) -> dict[str, float]:
        """Return the seconds that saving has cost the caller since the last call, and counts of saves."""
        seconds, self._seconds = self._seconds, dict.fromkeys(self._seconds, 0.0)
        return seconds | {
            "saver/pending": float(self.pending),
            "saver/dropped": float(self.dropped),
            "saver/failed": float(self.failed),
        }

    def flush(self) -> None:
        """Wait until everything is written; raise the error of a save that failed."""
        with self._changed:
            while self.pending:
                self._changed.wait()
        self._raise_failure()

    def close(self) -> None:
        """Write everything that waits, end the thread, and raise the error of a save that failed."""
        self._end(drop=False, timeout_s=None)
        self._raise_failure()

    def abandon(self) -> None:
        """End at once: only the file under way may still be finished."""
        self._end(drop=True, timeout_s=_PATIENCE_S)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            self.close()
        elif isinstance(error, Exception):
            self._close_and_log()  # the error that is under way is the one to be seen
        else:  # a second Ctrl-C
            self.abandon()

    def _close_and_log(self) -> None:
        try:
            self.close()
        except Exception as error:  # noqa: BLE001 (an error that is raised already is the cause, or came first)
            _LOG.error("%s", error, exc_info=not isinstance(error, OSError))

    def _room(self, frames: int) -> Snapshot:
        """Return a free snapshot; if there is none, do as when_full says."""
        with self._changed:
            if not self._free and self.when_full == "fail":
                self.dropped += 1
                raise QueueFull(
                    f"{self.pending} checkpoints still wait for the disk, so that of frame {frames:,} is not "
                    "saved; expected a faster disk; raise checkpoint.save_every, or choose "
                    "checkpoint.when_full=wait"
                )
            if not self._free and self.when_full == "drop_oldest":
                self.dropped += 1
                return self._waiting.popleft().snapshot
            while not self._free:
                self._changed.wait()
            return self._free.pop()

    def _give_back(self, snapshot: Snapshot) -> None:
        with self._changed:
            self._free.append(snapshot)
            self._changed.notify_all()

    def _start(self) -> None:
        if self._thread is None:
            # A daemon: else a disk that hangs could keep the process from ever ending. Nothing is lost by it,
            # because everything is written in close() or else at exit.
            thread = threading.Thread(target=self._work, name="checkpoints", daemon=True)
            thread.start()  # may be refused, and then there is no thread to wait for
            self._thread = thread
            atexit.register(self._close_and_log)

    def _end(self, *, drop: bool, timeout_s: float | None) -> None:
        with self._changed:
            self._closed = True
            if drop:
                self.dropped += len(self._waiting)
                self._waiting.clear()
            self._changed.notify_all()
        # First: a user who interrupts the wait below does not want to wait at exit again.
        atexit.unregister(self._close_and_log)
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _work(self) -> None:
        _lower_priority()
        while (job := self._next()) is not None:
            failure: Exception | None = None
            try:
                self.write(job.state, threads=1)
            except Exception as error:  # noqa: BLE001 (the next call raises any error)
                failure = error
            with self._changed:
                if failure is not None:
                    self.failed += 1
                    self._failure = self._failure or _named(failure, job.state.frames)
                self._writing = False
                self._free.append(job.snapshot)
                self._changed.notify_all()

    def _next(self) -> _Job | None:
        """Return the next job; None when closed and nothing waits."""
        with self._changed:
            while not self._waiting:
                if self._closed:
                    return None
                self._changed.wait()
            self._writing = True
            return self._waiting.popleft()

    def _raise_failure(self) -> None:
        with self._changed:
            failure, self._failure = self._failure, None
        if failure is not None:
            raise failure


def _lower_priority() -> None:
    """Let training go before this thread, on systems with priorities of threads."""
    if sys.platform == "linux":  # elsewhere it would be the whole process
        thread = threading.get_native_id()
        with contextlib.suppress(OSError):  # a sandbox may forbid it, and saving matters more
            niceness = os.getpriority(os.PRIO_PROCESS, thread) + _NICENESS
            os.setpriority(os.PRIO_PROCESS, thread, niceness)


def _named(failure: Exception, frames: int) -> Exception:
    """Return the failure with the checkpoint that it cost; a defect of the program is left as it is."""
    if not isinstance(failure, OSError):
        return failure
    named = SaveFailed(f"the checkpoint of frame {frames:,} was not written: {failure}")
    named.__cause__ = failure
    return named
