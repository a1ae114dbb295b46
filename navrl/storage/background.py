"""Saves in the background: the training loop pays for a copy in memory, a thread writes it."""

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
from types import TracebackType
from typing import Any, NamedTuple, Self

from navrl.storage.checkpoint import Content, flat
from navrl.storage.directory import step_name
from navrl.storage.saver import CheckpointSaver, SaveFailed
from navrl.storage.snapshot import Snapshot

WHEN_FULL = ("wait", "drop_oldest", "fail")
_NICENESS = 5  # a third of a core that others want too: training goes first, and saves still end
_PATIENCE_S = 1.0  # for the file under way when somebody wants to leave at once
_LOG = logging.getLogger(__name__)


class QueueFull(OSError):  # noqa: N818 (it says what it is without a suffix)
    """The disk is slower than the saves, and checkpoint.when_full=fail."""


class _Job(NamedTuple):
    content: Content
    snapshot: Snapshot  # whose memory the content is in


class AsyncSaver:
    """A CheckpointSaver with a queue and a thread before it.

    A snapshot belongs to the caller while it is filled, to the queue, to the thread while it is written, and
    is free again. There is one more than the queue has places. A save that failed raises in the next call.
    """

    def __init__(
        self,
        *,
        directory: Path,
        keep_last: int,
        keep_best: int,
        save_every: int,
        on_error: str,
        compress: str,
        queue_size: int,
        when_full: str,
    ) -> None:
        if queue_size < 1:
            raise ValueError(f"checkpoint.queue_size = {queue_size} must be at least 1")
        if when_full not in WHEN_FULL:
            raise ValueError(
                f"checkpoint.when_full = {when_full}; expected {', '.join(WHEN_FULL)}; "
                "change checkpoint.when_full"
            )
        self._writer = CheckpointSaver(
            directory=directory,
            keep_last=keep_last,
            keep_best=keep_best,
            save_every=save_every,
            on_error=on_error,
            compress=compress,
        )
        self.directory, self.on_error = self._writer.directory, on_error
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
    def saved_frames(self) -> int | None:
        """Frames of the newest checkpoint that is intact and durable."""
        return self._writer.saved_frames

    @property
    def pending(self) -> int:
        """Saves that are not on the disk yet."""
        return len(self._waiting) + self._writing

    def due(self, iteration: int) -> bool:
        """Whether to save after this iteration; the first one has number 1."""
        return self._writer.due(iteration)

    def save(
        self, state: Mapping[str, Any], *, frames: int, score: float | None, stage: int = 0
    ) -> Path:
        """Copy `state`, which may change from now on, and have it written to the path that is returned.

        What an earlier save failed of is raised here; this one is in the queue all the same.
        """
        if self._closed:
            raise ValueError("the saver is closed; a checkpoint after that would never be written")
        began = time.perf_counter()
        snapshot = self._room(frames)
        got_room = time.perf_counter()
        try:
            content = flat(state, frames=frames, score=score, stage=stage)
            content = content._replace(tensors=snapshot.fill(content.tensors))
            self._start()
        except BaseException:
            self._give_back(snapshot)
            raise
        self._seconds["time/save_wait"] += got_room - began
        self._seconds["time/save_snapshot"] += time.perf_counter() - got_room
        with self._changed:
            failure, self._failure = self._failure, None
            self._waiting.append(_Job(content, snapshot))
            self._changed.notify_all()
        if failure is not None:
            raise failure
        return self.directory / step_name(frames)

    def metrics(self) -> dict[str, float]:
        """Seconds that the caller has paid since it last asked, and what became of the saves."""
        seconds, self._seconds = self._seconds, dict.fromkeys(self._seconds, 0.0)
        return seconds | {
            "saver/pending": float(self.pending),
            "saver/dropped": float(self.dropped),
            "saver/failed": float(self.failed),
        }

    def flush(self) -> None:
        """Wait until everything is written; raises what failed."""
        with self._changed:
            while self.pending:
                self._changed.wait()
        self._raise_failure()

    def close(self) -> None:
        """Write everything that waits, end the thread, and raise what failed."""
        self._end(drop=False, timeout_s=None)
        self._raise_failure()

    def abandon(self) -> None:
        """Somebody is in a hurry: only the file under way may still be finished."""
        self._end(drop=True, timeout_s=_PATIENCE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
        elif isinstance(error, Exception):
            self._close_loudly()  # and the error that is under way is the one to be seen
        else:  # a second Ctrl-C
            self.abandon()

    def _close_loudly(self) -> None:
        try:
            self.close()
        except Exception as error:  # noqa: BLE001 (what is raised already is the cause, or came first)
            _LOG.error("%s", error, exc_info=not isinstance(error, OSError))

    def _room(self, frames: int) -> Snapshot:
        """A free snapshot, as soon or by the means that when_full says."""
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
            # A daemon, or a disk that hangs could keep the process from ever ending; nothing is lost by it,
            # as everything is drained in close() or else at exit.
            thread = threading.Thread(target=self._work, name="checkpoints", daemon=True)
            thread.start()  # may be refused, and then there is none to wait for
            self._thread = thread
            atexit.register(self._close_loudly)

    def _end(self, *, drop: bool, timeout_s: float | None) -> None:
        with self._changed:
            self._closed = True
            if drop:
                self.dropped += len(self._waiting)
                self._waiting.clear()
            self._changed.notify_all()
        # First: who is interrupted while waiting here does not want to wait at exit again.
        atexit.unregister(self._close_loudly)
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _work(self) -> None:
        _step_back()
        while (job := self._next()) is not None:
            failure: Exception | None = None
            try:
                self._writer.write(job.content, threads=1)
            except Exception as error:  # noqa: BLE001 (whatever it is, the next call raises it)
                failure = error
            with self._changed:
                if failure is not None:
                    self.failed += 1
                    self._failure = self._failure or _named(failure, job.content.frames)
                self._writing = False
                self._free.append(job.snapshot)
                self._changed.notify_all()

    def _next(self) -> _Job | None:
        """The next one to write; None when closed and nothing waits."""
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


def _step_back() -> None:
    """Training goes before this thread, where the system knows such a wish."""
    if sys.platform == "linux":  # elsewhere it would be the whole process
        thread = threading.get_native_id()
        with contextlib.suppress(OSError):  # a sandbox may forbid it, and saving matters more
            niceness = os.getpriority(os.PRIO_PROCESS, thread) + _NICENESS
            os.setpriority(os.PRIO_PROCESS, thread, niceness)


def _named(failure: Exception, frames: int) -> Exception:
    """The failure with the checkpoint it cost; a defect of the program is left as it is."""
    if not isinstance(failure, OSError):
        return failure
    named = SaveFailed(f"the checkpoint of frame {frames:,} was not written: {failure}")
    named.__cause__ = failure
    return named
