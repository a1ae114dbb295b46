"""A sweep in a folder of multirun/: its jobs as Hydra's sweeper lists them, and how far each has come.

multirun.yaml and the runs may be somebody else's: no word of theirs runs code, writes elsewhere or reads a
file unless the command line repeats it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, RangeSweep
from hydra.errors import HydraException

from navrl.config.checks import ConfigError
from navrl.config.compose import compose, explain, group_options
from navrl.config.quoting import shell_line
from navrl.config.stored import COMMAND, LOCAL, parse_yaml
from navrl.run.lock import is_locked
from navrl.run.plan import AUTO, by_key, first_overrides, is_run, root_of
from navrl.run.status import read_status
from navrl.run.stored_files import files_typed, repeated, require_typed
from navrl.storage.files import read_text

JobState = Literal["finished", "running", "killed", "interrupted", "failed", "never started"]
RECORD = "multirun.yaml"  # which Hydra writes before the first job
_MOST_JOBS = 10_000
_SWEEPER = "BasicSweeper"  # others choose a job by the results of those before it
_OF_THIS_FOLDER = ("hydra.mode=", "hydra.sweep.dir=")
_OWN = ("resume", "restarts")  # this command decides how a job goes on
_NEVER_TAKEN = (*COMMAND, "init")  # from a file: what runs, where it writes, which weights it reads


class Job(NamedTuple):
    """One training of a sweep."""

    number: int
    words: list[str]  # its overrides
    folder: Path
    state: JobState
    reason: str  # of a run that was interrupted or failed
    frames: int


class Sweep(NamedTuple):
    """The options of a sweep, and its jobs."""

    words: list[str]  # of its command line and of sweeper.params, swept ones as they were written
    launcher: list[str]  # the words about Hydra itself
    jobs: list[Job]
    swept: frozenset[str]  # the keys that distinguish the jobs

    @property
    def missing(self) -> list[Job]:
        """Return the jobs that have not finished."""
        return [job for job in self.jobs if job.state != "finished"]

    def values_of(self, job: Job) -> list[str]:
        """Return the words of a job that distinguish it from others."""
        return [word for word in job.words if _key(word) in self.swept]


def read_sweep(folder: Path) -> Sweep:
    """Return the sweep in the folder; raise ConfigError if it holds none."""
    record = folder / RECORD
    if not folder.is_dir():
        raise ConfigError(
            f"there is no folder {folder}; expected that of a sweep, such as "
            "multirun/combat-ppo/<date>-<time>-<id>; name another"
        )
    if not record.is_file():
        raise ConfigError(
            f"{folder} holds no {RECORD}; expected the folder of a sweep, such as "
            "multirun/combat-ppo/<date>-<time>-<id>; name another"
        )
    task, launcher = _recorded(record)
    words = [word for word in task if root_of(word) not in _OWN]
    overrides = _parsed(words, record)
    _require_few(overrides, record)
    (jobs,) = BasicSweeper.split_arguments(overrides, None)
    swept = frozenset(_key(str(each.input_line)) for each in overrides if each.is_sweep_override())
    return Sweep(words, launcher, list(_placed(folder, jobs, swept)), swept)


def job_words(sweep: Sweep, jobs: Iterable[Job], typed: Sequence[str]) -> Iterator[list[str]]:
    """Yield the words that begin or continue each job; raise ConfigError if `typed` must name more."""
    again = by_key(typed)
    changed = [again[key] for key in again if key in sweep.swept]
    if changed:
        raise ConfigError(
            f"{changed[0]} would make the jobs of the sweep alike; expected keys that it does not vary; "
            f"leave {changed[0]} out"
        )
    _require_repeated(sweep.words, again)
    checked = set()
    for job in jobs:
        words = [*(word for word in job.words if _key(word) not in again), *typed]
        unlike = tuple(word for word in words if root_of(word) != "seed")
        if unlike not in checked:  # composing takes a while, and seeds name no file
            config = compose("train", words)
            require_typed(config, files_typed(typed), repeated(config, {}).train)
            checked.add(unlike)
        yield [*words, f"resume={AUTO}"]


# ---- what was recorded ----


def _recorded(record: Path) -> tuple[list[str], list[str]]:
    """Return the words of the sweep, those of sweeper.params first, and the words about Hydra."""
    data: Any = parse_yaml(read_text(record), record)
    try:
        hydra = data["hydra"]
        task, launcher = (_texts(hydra["overrides"][kind]) for kind in ("task", "hydra"))
        command, sweeper = hydra["job"]["config_name"], hydra["sweeper"]
        kind = str(sweeper["_target_"]).rpartition(".")[2]
        params = [f"{key}={value}" for key, value in (sweeper.get("params") or {}).items()]
    except (LookupError, TypeError, AttributeError) as error:
        raise ConfigError(f"{record} is no record of a sweep; name another folder") from error
    if command != "train":
        raise ConfigError(
            f"{record} is of navrl {str(command)[:40]}; expected a sweep of navrl train; name another folder"
        )
    if kind != _SWEEPER:
        raise ConfigError(
            f"{record} is of {kind[:40]}, which chose each job by the results of others; expected Hydra's "
            "own sweeper; go on with single jobs by navrl train resume=<folder of the job>"
        )
    launcher = [word for word in launcher if not word.startswith(_OF_THIS_FOLDER)]
    return [*params, *task], launcher


def _texts(found: Any) -> list[str]:
    if not isinstance(found, list) or not all(isinstance(word, str) for word in found):
        raise TypeError("no list of words")
    return found


def _parsed(words: Sequence[str], record: Path) -> list[Override]:
    try:
        return OverridesParser.create().parse_overrides(list(words))
    except HydraException as error:
        raise ConfigError(f"{record}: {explain(error, 'train')}") from error


def _require_few(overrides: Iterable[Override], record: Path) -> None:
    """Raise ConfigError if the sweep has no listed values, or more jobs than anybody starts."""
    sizes = [_size(each) for each in overrides if each.is_sweep_override()]
    if None in sizes or math.prod(size or 0 for size in sizes) > _MOST_JOBS:
        raise ConfigError(
            f"{record} has more than {_MOST_JOBS:,} jobs, or values that are in no list; expected a sweep "
            "such as seed=0,1,2; name another folder"
        )


def _size(sweep: Override) -> int | None:
    """Return the number of values, without listing them; None for glob() and interval()."""
    values: Any = sweep.value()
    if isinstance(values, RangeSweep):
        start, stop, step = (float(x or 0) for x in (values.start, values.stop, values.step))
        return math.ceil(max(0.0, (stop - start) / step)) if step else None
    values = getattr(values, "list", values)
    return len(values) if isinstance(values, list) else None


# ---- where each job is ----


def _placed(folder: Path, jobs: Sequence[list[str]], swept: frozenset[str]) -> Iterator[Job]:
    """Yield every job with the run that has its values: in the folder with its number, else in another."""
    runs = {
        path: by_key(first_overrides(path))
        for path in sorted(folder.iterdir())
        if not path.is_symlink() and is_run(path)
    }
    wanted = [{key: by_key(words).get(key) for key in swept} for words in jobs]
    places: dict[int, Path] = {}

    def claim(number: int, path: Path) -> None:
        found = runs.get(path)
        if found is not None and all(found.get(key) == wanted[number][key] for key in swept):
            places[number] = path
            del runs[path]

    for number in range(len(jobs)):
        claim(number, folder / str(number))
    for number in range(len(jobs)):
        for path in [*runs] if number not in places else ():
            if number not in places:
                claim(number, path)
    taken = {*places.values(), *runs}
    free = (path for n in range(2 * len(jobs)) if (path := folder / str(n)) not in taken)
    for number, words in enumerate(jobs):
        yield _job(number, words, places.get(number) or next(free))


def _job(number: int, words: list[str], folder: Path) -> Job:
    if not is_run(folder):
        return Job(number, words, folder, "never started", "", 0)
    status = read_status(folder)
    frames = status.get("frames")
    frames = frames if type(frames) is int else 0
    reason = str(status.get("reason", ""))
    if is_locked(folder):
        return Job(number, words, folder, "running", "", frames)
    match status.get("state"):
        case "finished":
            return Job(number, words, folder, "finished", "", frames)
        case "interrupted":
            return Job(number, words, folder, "interrupted", reason, frames)
        case "failed":
            return Job(number, words, folder, "failed", reason, frames)
    return Job(number, words, folder, "killed", "", frames)  # it could not say so itself


# ---- which words a file decides ----


def _require_repeated(words: Sequence[str], typed: Mapping[str, str]) -> None:
    """Raise ConfigError about recorded words that only the command line may say, and does not."""
    found = [word for word in words if _key(word) not in typed and not _harmless(word)]
    if found:
        them = "them" if len(found) > 1 else "it"
        raise ConfigError(
            f"{RECORD} names {shell_line(found)}; expected {them} to be repeated on "
            "the command line, because somebody else may have written the file; add what you want of it, "
            "or other values of these keys"
        )


def _harmless(word: str) -> bool:
    """Return whether a word of a file may be obeyed: a number, or an option of conf/ by its name."""
    root, key, value = root_of(word), _key(word), word.partition("=")[2]
    if root in _NEVER_TAKEN or "${" in word or "/" in key or "@" in key:
        return False
    options = group_options(root)
    if key == root and options:
        return value == "null" or {*value.split(",")} <= {*options}
    return root not in LOCAL or (root != "logger" and _is_number(value))


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _key(word: str) -> str:
    return next(iter(by_key([word])))
