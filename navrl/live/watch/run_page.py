"""The data of the page of one run, or of several that are compared: charts, console, checkpoints, times."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from navrl.config.checks import printable
from navrl.live.watch.catalogue import Catalogue, LiveRun
from navrl.loggers.console import progress_line
from navrl.loggers.table import Table
from navrl.storage.header import CorruptFile
from navrl.storage.info import checkpoint_files, read_info
from navrl.view.run_report import labelled, record_of, report_of

MOST_COMPARED = 24
_LINES = 12  # of the console
_MOST_CHECKPOINTS = 40
_RECENT = 200  # iterations whose times are shown
_TIMES = ("collect", "update", "evaluate", "curriculum", "rollouts", "save")
_MOST_BYTES = 64 << 20  # of a checkpoint whose header is read
_known: dict[tuple[Any, ...], dict[str, Any]] = {}  # facts about checkpoints by file and time


def page_data(catalogue: Catalogue, runs: Sequence[LiveRun]) -> dict[str, Any]:
    """Return what the page of these runs shows; raise ConfigError if one cannot be read."""
    readable = [run for run in runs if run.stored is not None]
    data: dict[str, Any] = {
        "ids": [run.id for run in runs],
        "rows": [catalogue.row(run) for run in runs],
    }
    records = [record_of(run.stored, run.table()) for run in readable if run.stored is not None]
    if any(len(record.run.rows) for record in records):
        data["report"] = report_of(labelled(records), [run.path for run in readable])
    if len(readable) == 1 and readable[0].stored is not None:
        (run,) = readable
        table = run.table()
        data["console"] = console(table, readable[0].stored.found.config)
        data["times"] = times(table)
        data["checkpoints"] = checkpoints(run.path)
    return data


def console(table: Table, config: Mapping[str, Any]) -> list[str]:
    """Return the last lines as the console of the training shows them."""
    env = config.get("env")
    headline = env.get("headline") if isinstance(env, Mapping) else None
    known = headline if isinstance(headline, Mapping) else {}
    labels = {str(key)[:40]: str(metric) for key, metric in known.items()}
    sizes = [config.get(key) for key in ("total_frames", "num_envs", "rollout_steps")]
    total = 0
    if all(type(size) is int and size > 0 for size in sizes):
        frames, envs, steps = map(int, filter(None, sizes))
        total = math.ceil(frames / (envs * steps))
    return [
        printable(
            progress_line(
                row,
                iteration=int(row["iteration"]),
                frames=int(row["frames"]),
                total=total,
                headline=labels,
            )
        )
        for row in table[max(len(table) - _LINES, 0) :]
        if "iteration" in row
    ]


def times(table: Table) -> list[list[Any]]:
    """Return the mean seconds of the parts of the last iterations; the first one compiles and is left out."""
    found = []
    for part in _TIMES:
        values = table.column(f"time/{part}")[1:][-_RECENT:]
        known = values[np.isfinite(values) & (values >= 0.0)]
        if known.size:  # a part that is not in every iteration counts as 0 in the others
            found.append([part, float(f"{known.sum() / len(values):.4g}")])
    return found


def checkpoints(run: Path) -> list[dict[str, Any]]:
    """Return the checkpoints of a run with the facts in their headers, most frames first."""
    folder = run / "checkpoints"
    if folder.is_symlink() or not folder.is_dir():
        return []
    return [_checkpoint(path) for path in checkpoint_files(folder)[:_MOST_CHECKPOINTS]]


def _checkpoint(path: Path) -> dict[str, Any]:
    try:
        status = path.lstat()
        key = (path, status.st_ino, status.st_size, status.st_mtime_ns)
        if key not in _known:
            if len(_known) > 10_000:
                _known.clear()
            info = read_info(path)
            _known[key] = {"frames": info.frames, "stage": info.stage + 1, "score": info.score}
        return {"file": path.name, "size": status.st_size, **_known[key]}
    except (OSError, CorruptFile) as error:
        verdict = error.verdict if isinstance(error, CorruptFile) else str(error.strerror)
        return {"file": path.name, "fault": printable(verdict)[:200]}
