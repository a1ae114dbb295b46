"""The data of the page of one run, or of several that are compared: charts, console, checkpoints, times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from navrl.config.checks import printable
from navrl.live.watch.catalogue import Catalogue, LiveRun
from navrl.loggers.console import progress_line
from navrl.loggers.table import Table
from navrl.run.stored_runs import StoredRun
from navrl.storage.header import CorruptFile
from navrl.storage.info import checkpoint_files, read_info
from navrl.view.curves import LARGEST, YOUNG
from navrl.view.run_report import labelled, record_of, report_of

MOST_COMPARED = 24
_LINES = 12  # of the console
_MOST_CHECKPOINTS = 40
_RECENT = 200  # iterations whose times are shown
_TIMES = ("collect", "update", "evaluate", "curriculum", "rollouts", "save")
_known: dict[tuple[Any, ...], dict[str, Any]] = {}  # facts about checkpoints by file and time


def page_data(catalogue: Catalogue, runs: Sequence[LiveRun]) -> dict[str, Any]:
    """Return what the page of these runs shows; raise ConfigError if one cannot be read."""
    data: dict[str, Any] = {
        "ids": [run.id for run in runs],
        "rows": [catalogue.row(run) for run in runs],
    }
    # Another thread follows the runs meanwhile, and replaces `stored`.
    found = [(stored, run.table()) for run in runs if (stored := run.stored) is not None]
    records = [record_of(stored, table) for stored, table in found]
    if any(len(table) for _, table in found):
        data["report"] = report_of(labelled(records), [stored.path for stored, _ in found])
    if len(found) == 1:
        ((stored, table),) = found
        data["console"] = console(table, stored)
        data["times"] = times(table)
        data["checkpoints"] = checkpoints(stored.path)
    return data


def console(table: Table, stored: StoredRun) -> list[str]:
    """Return the last lines as the console of the training shows them."""
    config, total = stored.found.config, 0
    env = config.get("env")
    headline = env.get("headline") if isinstance(env, Mapping) else None
    known = headline if isinstance(headline, Mapping) else {}
    labels = {str(key)[:40]: str(metric) for key, metric in known.items()}
    envs, steps = (config.get(key) for key in ("num_envs", "rollout_steps"))
    if type(envs) is type(steps) is int and min(envs, steps) > 0:
        total = -(-(stored.total_frames or 0) // (envs * steps))
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
    """Return the mean seconds of the parts of the last iterations, without the first ones, which compile."""
    found, young = [], max(1, min(YOUNG, len(table) - 1))
    for part in _TIMES:
        values = table.column(f"time/{part}")[young:][-_RECENT:]
        known = values[(values >= 0.0) & (values < LARGEST)]  # also not of nan
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
