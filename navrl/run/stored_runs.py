"""The runs on disk: which there are, and what each of them says about itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from navrl.config.checks import ConfigError
from navrl.config.compose import dotted_items
from navrl.config.stored import parse_yaml, words_of
from navrl.loggers.jsonl import numbers, read_last
from navrl.run.lock import is_locked
from navrl.run.notes import Notes, read_notes
from navrl.run.status import read_status
from navrl.storage.files import UnsafePath, read_json, read_text

RUNS = (Path("outputs"), Path("multirun"))  # of this working directory
OF_RUNS = ("metrics.jsonl", "status.json")  # files by which a run is known
_OF_A_SWEEP = ("*", "*/*", "*/*/*")  # of runs below a folder
DEPTHS = (*_OF_A_SWEEP, "*/*/*/*", "*/*/*/*/*")  # trials of a search
_LONGEST_NAME = 100  # characters
_LARGEST_SEED = 2**64
_MOST_FRAMES = 10**18
# Options that change no result, or belong to the seed.
NO_DIFFERENCE = ("seed", "hydra", "logger", "console", "resume", "restarts", "device", "threads")
_ENDED = ("finished", "interrupted", "failed")
STATES = (*_ENDED, "running", "stale")


class Description(NamedTuple):
    """The small files of a run's folder, read."""

    path: Path
    env: str
    agent: str
    seed: int
    objective: str  # the rate that judges a policy
    config: Mapping[str, Any]
    overrides: list[str]
    status: Mapping[str, Any]
    state: str  # as the run itself left it
    summary: Mapping[str, float]


class Objective(NamedTuple):
    """The rate that judges a run, with its interval where there is one."""

    value: float
    low: float
    high: float
    source: str  # the metric, or of how many it is the mean


class StoredRun:
    """A run with its state, metrics at the end and notes; each is read when it is asked for."""

    def __init__(self, found: Description) -> None:
        self.found = found
        self.path = found.path

    @cached_property
    def state(self) -> str:
        """Return running, finished, interrupted or failed; stale if its process is gone without a word."""
        if self.found.state in _ENDED:
            return self.found.state
        return "running" if is_locked(self.path) else "stale"

    @cached_property
    def last(self) -> dict[str, float]:
        """Return the last value of every metric that was logged lately."""
        log = self.path / "metrics.jsonl"
        return read_last(log) if log.exists() or log.is_symlink() else {}

    @cached_property
    def metrics(self) -> dict[str, float]:
        """Return the numbers at the end: those of the summary, or of the last iterations."""
        complete = self.found.state == "finished" and self.found.summary
        return dict(self.found.summary) if complete else {**self.last, **self.found.summary}

    @cached_property
    def frames(self) -> int:
        """Return the frames so far."""
        frames = self.found.status.get("frames")
        known = frames if type(frames) is int and 0 <= frames < _MOST_FRAMES else 0
        if known and self.state in _ENDED:
            return known
        return max(known, int(self.last.get("frames", 0)))

    @property
    def total_frames(self) -> int | None:
        """Return the frames that were asked for."""
        total = self.found.config.get("total_frames")
        return total if type(total) is int and 0 <= total < _MOST_FRAMES else None

    @cached_property
    def notes(self) -> Notes:
        """Return the tags and the note."""
        return read_notes(self.path)

    @cached_property
    def items(self) -> dict[str, Any]:
        """Return the configuration by dotted keys; references such as ${env.name} are kept."""
        pairs = dotted_items(self.found.config)
        return {key: value for key, value in pairs if not isinstance(value, Mapping)}

    @cached_property
    def objective(self) -> Objective | None:
        """Return the mean of the final rates, or the last held-out one, or that of training episodes."""
        name = self.found.objective
        finals = final_rates(self)
        if len(finals) > 1:
            mean = sum(finals.values()) / len(finals)
            return Objective(mean, math.nan, math.nan, f"final, mean of {len(finals)}")
        for metric in (*finals, f"eval/{name}", f"episode/{name}"):
            value = self.metrics.get(metric, math.nan)
            if math.isfinite(value):
                low, high = (
                    self.metrics.get(f"{metric}_{end}", math.nan) for end in ("low", "high")
                )
                return Objective(value, low, high, metric)
        return None

    @property
    def changed(self) -> datetime | None:
        """Return when the run began, or ended."""
        try:
            time = datetime.fromisoformat(self.found.status.get("time", ""))
            return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
        except (ValueError, TypeError, OverflowError):
            return None


def final_rates(run: StoredRun) -> dict[str, float]:
    """Return eval/<opponent>/<objective> of the final evaluation by name."""
    end = f"/{run.found.objective}"
    return {
        name: float(value)
        for name, value in run.found.summary.items()
        if name.startswith("eval/") and name.endswith(end) and name.count("/") == 2
        if math.isfinite(value)
    }


def runs_in(place: Path, depths: Sequence[str] = _OF_A_SWEEP) -> list[Path]:
    """Return the run at that place, or all runs below it; one that failed at once has no metrics."""
    if is_run_folder(place):
        return [place]
    found = {
        file.parent
        for depth in depths
        for name in OF_RUNS
        for file in place.glob(f"{depth}/{name}")
    }
    if not found:
        raise ConfigError(
            f"{place} holds no metrics.jsonl; expected a run, or a folder with runs; name another"
        )
    runs = {path for path in found if not path.is_symlink()}  # outputs/latest is one of them again
    return sorted(runs or found, key=lambda path: (path.parent, len(path.name), path.name))


def is_run_folder(place: Path) -> bool:
    """Return whether the folder itself holds a run."""
    return any((place / name).is_file() for name in OF_RUNS)


def stored_runs(places: Sequence[Path], warn: Callable[[str], None]) -> Iterator[StoredRun]:
    """Yield the runs at or below these places once; `warn` is told of what cannot be read."""
    found = (path for place in places for path in runs_in(place, DEPTHS))
    once = {path.resolve(): path for path in found}  # though two names lead to it
    for path in once.values():
        try:
            yield complete(StoredRun(read_description(path)))
        except (UnsafePath, ConfigError) as error:
            warn(str(error))


def complete(run: StoredRun) -> StoredRun:
    """Read everything that a list shows, so that what is wrong with a file is known before."""
    _ = run.state, run.metrics, run.frames, run.notes
    return run


def read_description(path: Path) -> Description:
    """Read the small files of a run; raise ConfigError if they do not describe one."""
    try:
        described = path / "config.yaml"
        config: Any = parse_yaml(read_text(described), described)
        env, agent, seed = config["env"], config["agent"]["name"], config["seed"]
        words = path / "overrides.yaml"
        status = read_status(path)
        return Description(
            path=path,
            env=_word(env["name"]),
            agent=_word(agent),
            seed=_seed(seed),
            objective=_word(env.get("objective", "return")),
            config=config,
            overrides=words_of(read_text(words), words),
            status=status,
            state=_word(status.get("state", "unknown")),
            summary=_summary(path / "summary.json"),
        )
    except UnsafePath:
        raise
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        reason = error if isinstance(error, ConfigError) else type(error).__name__
        raise ConfigError(
            f"{path} is not described by its config.yaml and overrides.yaml ({reason}); "
            "expected a run of navrl; leave it out"
        ) from error


def _summary(path: Path) -> Mapping[str, float]:
    found = read_json(path) if path.exists() else {}
    return numbers(found) if isinstance(found, dict) else {}


def _word(found: object) -> str:
    """Return a name in a run's files, of a length that can be shown; raise TypeError if it is none."""
    if not isinstance(found, str):
        raise TypeError(f"a name is a {type(found).__name__}")
    return found[:_LONGEST_NAME]


def _seed(found: object) -> int:
    if type(found) is not int or not 0 <= found < _LARGEST_SEED:
        raise TypeError("the seed is not one")
    return found


def short_names(paths: Sequence[Path]) -> list[str]:
    """Return names of folders, with as many parents as make them unique."""
    for length in range(1, max(len(path.parts) for path in paths) + 1):
        names = ["/".join(path.parts[-length:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    return [str(path) for path in paths]
