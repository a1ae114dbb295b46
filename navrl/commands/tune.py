"""`navrl tune`: search for better options, or change them while a population trains."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from navrl.config.checks import ConfigError, require_whole
from navrl.config.command import run_plain
from navrl.config.command_line import Setting, command_parser, show, take_words
from navrl.config.compose import compose
from navrl.config.quoting import shell_line
from navrl.config.signals import number_of
from navrl.loggers.format import count
from navrl.tune.plan import PRUNERS, STUDIES, Options, Plan, plan_search, words_of_command
from navrl.tune.pool import Pool, cores_of, pin

_OF_SEARCH = {"trials": 24, "seeds": 1, "pruner": None, "cost": False, "storage": None}
_OF_PBT = {"population": 8, "interval": None}

if TYPE_CHECKING:  # Optuna is an extra
    from navrl.tune.search import Search

_SETTINGS = {
    "space": Setting(None, "a file of conf/tune: options and their ranges; default: the agent's"),
    "study": Setting(
        None, f"names its folder in {STUDIES}; default: <env>-<agent>, with --pbt <env>-<agent>-pbt"
    ),
}
_OVERRIDES = "options of navrl train, of every trial: total_frames=1000000"
_EXAMPLES = """  navrl tune env=combat agent=ppo total_frames=1000000 --trials 24 --workers 2
  navrl tune study=patient space=ppo agent.optimizer.learning_rate=1e-5 --pruner hyperband
  navrl tune env=coverage agent=mappo experiment=coverage_mappo --seeds 3 --trials 40
  navrl tune env=combat agent=ppo study=cheap --cost    result against CPU seconds
  navrl tune env=combat agent=ppo total_frames=2000000 --pbt --population 8 --workers 2
  navrl tune curriculum=league seed=3 --pbt --interval 500000    options change while they train
  navrl tune env=combat agent=ppo --storage postgresql://host/studies --workers 8

The same command goes on with its study, also beside others, on every host that shares its folder."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `navrl tune`."""
    return run_plain(_parser(), tune, arguments)


def tune(options: argparse.Namespace) -> int:
    """Search until all trials have ended, or as a worker of another command take trials."""
    take_words(options, _SETTINGS)
    require_whole("--workers", options.workers, least=1)
    _check_flags(options)
    if options.pbt:
        return _train_population(options)
    if importlib.util.find_spec("optuna") is None:
        raise ConfigError(
            "navrl tune needs Optuna, which is not installed; pip install 'navrl[tune]'"
        )
    plan = plan_search(_options(options))
    from navrl.tune.search import Search
    from navrl.tune.worker import work

    search = Search(plan)
    if options.worker is not None:
        return _as_worker(options.worker, partial(work, plan, search))
    return _search(plan, search, options.workers)


def _as_worker(cores: str, work: Callable[[], None]) -> int:
    """Work on these cores for the command that started this process."""
    pin([int(core) for core in cores.split(",") if core])
    try:
        work()
    except KeyboardInterrupt as stop:
        return 128 + number_of(stop)  # the command that started it says what there is to say
    return 0


def _train_population(options: argparse.Namespace) -> int:
    """Train a population, or as a worker of another command its members; sum up what was found."""
    from navrl.tune.member import work_on
    from navrl.tune.population import Population
    from navrl.tune.population_report import opening, write_population

    chosen = _options(options)
    require_whole("--population", chosen.population, least=2)
    plan = plan_search(chosen)
    population = Population(plan)
    work = partial(work_on, plan, population)
    if options.worker is not None:
        return _as_worker(options.worker, work)
    show(opening(plan, population, options.workers))
    whole = plan.generations * chosen.population

    def ended() -> str:
        return f"{population.trained()} of {whole} trainings of a generation have ended"

    return _to_the_end(
        plan, options.workers, work, partial(write_population, plan, population), ended
    )


def _with_workers(plan: Plan, workers: int, work: Callable[[], None]) -> int:
    """Work in this process, or in several; return the exit code."""
    if workers == 1:
        work()
        return 0
    threads = compose("train", plan.options.overrides).threads or 1
    return Pool(partial(_worker, plan), cores_of(workers, threads)).run()


def _search(plan: Plan, search: Search, workers: int) -> int:
    """Search with so many workers, and sum up what was found."""
    from navrl.tune.report import write_results
    from navrl.tune.worker import work

    show(_opening(plan, search.ended(), workers))

    def ended() -> str:
        return f"{search.ended()} of {plan.options.trials} trials have ended"

    results = partial(write_results, plan, search)
    return _to_the_end(plan, workers, partial(work, plan, search), results, ended)


def _to_the_end(
    plan: Plan,
    workers: int,
    work: Callable[[], None],
    results: Callable[[], str],
    ended: Callable[[], str],
) -> int:
    """Work with so many workers, write the results, and say how to go on with what is not at its end."""
    again = shell_line(words_of_command(plan.options, workers))
    sys.stdout.flush()
    try:
        code = _with_workers(plan, workers, work)
    except KeyboardInterrupt as stop:
        show(results())
        stop.args = (f"stopped and saved, {ended()}. To go on:  {again}",)
        raise
    show(results())
    if code:
        sys.stderr.write(f"navrl: a worker failed. To go on:  {again}\n")
    return code


def _worker(plan: Plan, cores: Sequence[int]) -> list[str]:
    """Return the command of one worker among several."""
    words = words_of_command(plan.options, workers=1)[1:]
    pinned = f"--worker={','.join(map(str, cores))}"
    return [sys.executable, "-m", "navrl.cli", *words, pinned]


def _opening(plan: Plan, ended: int, workers: int) -> str:
    """Return the first line of a search: its size, and how far it is."""
    options = plan.options
    each = f"{count(plan.total_frames)} frames"
    each = f"{len(plan.seeds)} trainings of {each}" if len(plan.seeds) > 1 else each
    goal = f"{plan.objective} against CPU seconds" if options.cost else plan.objective
    done = f", {ended} have ended" if ended else ""
    number = f"{workers} workers" if workers > 1 else "1 worker"
    return (
        f"searching {len(plan.space.dimensions)} options of conf/tune/{plan.space.name}.yaml for {goal}: "
        f"{options.trials} trials of {each}{done}, {number}\nwriting to {plan.folder}\n"
    )


def _options(options: argparse.Namespace) -> Options:
    """Return what the command line asks for."""
    given = {name: getattr(options, name) for name in Options._fields}
    for name, default in {**_OF_SEARCH, **_OF_PBT}.items():
        given[name] = default if given[name] is None else given[name]
    pruner = given["pruner"] or ("none" if given["cost"] or options.pbt else "median")
    population = given["population"] if options.pbt else 0
    return Options(**{**given, "pruner": pruner, "population": population})


def _check_flags(options: argparse.Namespace) -> None:
    """Raise about flags of a search with --pbt, and the other way round."""
    wrong = _OF_SEARCH if options.pbt else _OF_PBT
    for name in wrong:
        if getattr(options, name) not in (None, False):
            other = "is of a search without --pbt" if options.pbt else "goes with --pbt only"
            change = f"leave --{name} out" + ("" if options.pbt else ", or add --pbt")
            raise ConfigError(f"--{name} {other}; {change}")


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(
        "tune",
        "Search for better options with Optuna, or change them while a population trains (--pbt).",
        _EXAMPLES,
        settings=_SETTINGS,
        overrides=_OVERRIDES,
    )
    parser.add_argument("--trials", type=int, help="of the study, in all; default: 24")
    parser.add_argument("--workers", type=int, default=1, help="trainings at a time; default: 1")
    parser.add_argument(
        "--seeds", type=int, help="trainings of a trial, whose mean counts; default: 1"
    )
    parser.add_argument(
        "--pruner",
        metavar="NAME",
        help=f"ends trials that are far behind: {' | '.join(PRUNERS)}; default: median",
    )
    parser.add_argument(
        "--cost", action="store_true", help="two goals: the result, and few CPU seconds"
    )
    parser.add_argument(
        "--storage", metavar="URL", help="a database of Optuna; default: a file in the folder"
    )
    parser.add_argument(
        "--pbt", action="store_true", help="population-based training instead of a search"
    )
    parser.add_argument(
        "--population", type=int, metavar="N", help="members, with --pbt; default: 8"
    )
    parser.add_argument(
        "--interval",
        type=int,
        metavar="FRAMES",
        help="of a generation, with --pbt; default: a tenth of total_frames",
    )
    parser.add_argument("--worker", metavar="CORES", help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
