"""`navrl sweep`: list the jobs of a sweep that have not finished, and run those."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from navrl.config.checks import ConfigError
from navrl.config.command import reporting, run_plain
from navrl.config.command_line import columns, command_parser, show, take_words
from navrl.config.launchers import launch_jobs
from navrl.config.quoting import shell_line, shown_path
from navrl.run.sweep import Job, Sweep, job_words, read_sweep
from navrl.train import train

_OVERRIDES = "options of navrl train for the jobs that run, and of Hydra for the launcher"
_EXAMPLES = """  navrl train -m env=combat agent=ppo seed=0,1,2                    start a sweep
  navrl sweep --missing multirun/combat-ppo/<sweep>                 what has not finished
  navrl sweep --missing multirun/combat-ppo/<sweep> --run           go on with it
  navrl sweep --missing multirun/combat-ppo/<sweep> --run hydra/launcher=joblib"""
_LONGEST = 100  # characters of a job's words or reason in the list


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `navrl sweep`."""
    parser = command_parser(
        "sweep",
        "List the jobs of a sweep that have not finished. With --run those that were begun go on from "
        "their last checkpoint and the others begin, each in its own folder; 1 if some do not finish.",
        _EXAMPLES,
        overrides=_OVERRIDES,
    )
    parser.add_argument(
        "--missing", type=Path, metavar="FOLDER", help="the folder of a sweep, in multirun/"
    )
    parser.add_argument("--run", action="store_true", help="run what is missing")
    return run_plain(parser, _sweep, arguments)


def _sweep(options: argparse.Namespace) -> int:
    take_words(options, {}, positionals=None)
    if options.positionals:
        word = options.positionals[0]
        raise ConfigError(f"Cannot read '{word}': write key=value; did you mean --missing {word}?")
    folder: Path | None = options.missing
    if folder is None:
        raise ConfigError(
            "no sweep is named; expected its folder (navrl train -m starts one); add --missing FOLDER"
        )
    if options.overrides and not options.run:
        raise ConfigError(
            f"{options.overrides[0]} changes nothing in a list; expected it with --run; add --run"
        )
    sweep = read_sweep(folder)
    show(_listed(folder, sweep))
    if not options.run or not sweep.missing:
        _advise(folder, sweep)
        return 0
    _run(sweep, options.overrides)
    left = read_sweep(folder)
    show(_listed(folder, left))
    return int(bool(left.missing))


def _run(sweep: Sweep, typed: Sequence[str]) -> None:
    """Run the missing jobs with Hydra's launcher."""
    running = [job for job in sweep.jobs if job.state == "running"]
    if running:
        raise ConfigError(
            f"{running[0].folder} is running, and its sweep may yet start other jobs; expected a sweep that "
            "has ended; wait for it, or stop it"
        )
    about_hydra = [word for word in typed if _is_about_hydra(word)]
    options = [word for word in typed if not _is_about_hydra(word)]
    words = job_words(sweep, sweep.missing, options)
    folders = [job.folder for job in sweep.missing]
    jobs = dict(zip(folders, words, strict=True))
    sys.stdout.flush()
    launch_jobs(reporting(train), "train", jobs, about_hydra)


def _is_about_hydra(word: str) -> bool:
    return word.lstrip("+~").startswith(("hydra.", "hydra/"))


def _advise(folder: Path, sweep: Sweep) -> None:
    """Print how to run what is missing."""
    if not sweep.missing:
        return
    place = shown_path(folder)
    show(f"run them:  {shell_line(['navrl', 'sweep', '--missing', place, '--run'])}\n")
    if sweep.launcher:
        show(f"the sweep was started with {shell_line(sweep.launcher)}: add what you want of it\n")


def _listed(folder: Path, sweep: Sweep) -> str:
    """Return how many jobs are in which state, and a table of those that are missing."""
    states = Counter(job.state for job in sweep.jobs)
    summary = ", ".join(f"{number} {state}" for state, number in states.items())
    text = f"{folder}: {len(sweep.jobs)} jobs: {summary}\n"
    if not sweep.missing:
        return text
    rows = [("folder", "state", "frames", "values"), *(_row(job, sweep) for job in sweep.missing)]
    return text + columns(rows)


def _row(job: Job, sweep: Sweep) -> tuple[str, ...]:
    values = " ".join(sweep.values_of(job))
    reason = f" ({job.reason[:_LONGEST]})" if job.reason else ""
    return (job.folder.name, job.state, f"{job.frames:,}", f"{values[:_LONGEST]}{reason}")


if __name__ == "__main__":
    sys.exit(main())
