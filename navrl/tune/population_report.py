"""The results of a population: the best member, the schedule of its options, and a page of the lineage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from navrl.config.command_line import columns
from navrl.config.quoting import override, shell_line, shown_path
from navrl.loggers.format import count
from navrl.storage.files import write_atomically
from navrl.tune.evolution import Member, line_of
from navrl.tune.member import shown
from navrl.tune.plan import Plan
from navrl.tune.population import Population
from navrl.tune.space import dimension_shown, written_value
from navrl.view.html import POPULATION, page

_PAGE = "report.html"


def opening(plan: Plan, population: Population, workers: int) -> str:
    """Return the first lines: the size of the population, and how far it is."""
    trained = population.trained()
    done = f", {trained} trainings of a generation have ended" if trained else ""
    number = f"{workers} workers" if workers > 1 else "1 worker"
    return (
        f"training a population of {plan.options.population} for {plan.objective}: {plan.generations} "
        f"generations of {count(plan.interval)} frames, {len(plan.space.dimensions)} options of "
        f"conf/tune/{plan.space.name}.yaml{done}, {number}\nwriting to {plan.folder}\n"
    )


def write_population(plan: Plan, population: Population) -> str:
    """Write the page into the folder of the study; return the lines that sum it up."""
    generations = population.generations()
    whole = [each for each in generations if all(member.ended for member in each)]
    best = best_of(whole[-1]) if whole else None
    line = [] if best is None else line_of(whole, best.number)
    write_atomically(plan.folder / _PAGE, page(POPULATION, page_data(plan, generations, line)))
    wrote = f"wrote {plan.folder / _PAGE}\n"
    if best is None:
        return f"{_unknown(plan, len(whole))}\n{wrote}"
    lines = [
        f"\n{plan.name}: {len(whole)} of {plan.generations} generations of {plan.options.population} members",
        f"best: member {best.number}, {plan.objective} {shown(best.score)}; its line and its options:",
        columns(_schedule(plan, line)).rstrip(),
        "next:",
        *(f"  {command}" for command in commands(plan, best)),
    ]
    return "\n".join([*lines, wrote])


def _unknown(plan: Plan, complete: int) -> str:
    """Return why there is no best member."""
    if not complete:
        return "no generation is complete yet"
    return (
        f"no member of generation {complete} has a score: nothing was evaluated, and no episode "
        f"that counts ended within a generation of {count(plan.interval)} frames; leave "
        "eval_opponents=[] out, or set a longer --interval"
    )


def best_of(members: Sequence[Member]) -> Member | None:
    """Return the member with the highest score; None if no score is known."""
    known = [(each.score, -each.number, each) for each in members if each.score is not None]
    return max(known)[2] if known else None


def commands(plan: Plan, best: Member) -> list[str]:
    """Return the commands that go on with a member."""
    run = shown_path(plan.folder / best.run)
    conf = plan.options.config_dir
    place = [] if conf is None else ["--config-dir", str(conf)]
    evaluate = ["navrl", "evaluate", *place, override("checkpoint", run)]
    more = [override("resume", run), f"total_frames={2 * plan.total_frames}"]
    return [shell_line(evaluate), shell_line(["navrl", "train", *place, *more])]


def page_data(
    plan: Plan, generations: Sequence[Sequence[Member]], line: Sequence[Member]
) -> dict[str, Any]:
    """Return the data that the scripts of the page read."""
    best = line[-1] if line else None
    dimensions = plan.space.dimensions
    return {
        "title": f"population {plan.name}",
        "subtitle": f"{plan.options.population} members, {len(generations)} of {plan.generations} "
        f"generations of {count(plan.interval)} frames",
        "outcome": "" if best is None else f"{plan.objective} {shown(best.score)}",
        "objective": plan.objective,
        "line": [each.number for each in line],
        "run": "" if best is None else shown_path(plan.folder / best.run),
        "commands": [] if best is None else commands(plan, best),
        "dimensions": [dimension_shown(key, each) for key, each in dimensions.items()],
        "generations": [[_row(each) for each in members] for members in generations],
    }


def _row(member: Member) -> dict[str, Any]:
    params = {key: written_value(value) for key, value in member.params.items()}
    state = f"failed: {member.fault}" if member.fault else "" if member.ended else "training"
    known = {"score": member.score, "state": state, "params": params}
    return {"number": member.number, "parent": member.parent, "how": member.how, **known}


def _schedule(plan: Plan, line: Sequence[Member]) -> list[list[str]]:
    """Return the rows of the line of a member: which options held in which generation."""
    keys = list(plan.space.dimensions)
    head = ["  generation", "member", plan.objective, *(key.rpartition(".")[2] for key in keys)]
    return [
        head,
        *(
            [f"  {at}", str(each.number), shown(each.score)]
            + [written_value(each.params[key]) for key in keys]
            for at, each in enumerate(line, 1)
        ),
    ]
