"""The results of a search: the best command, a preset of it, a page of plots and tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from navrl.config.command_line import columns
from navrl.config.compose import conf_dir, groups_and_values
from navrl.config.quoting import shell_line, shown_path
from navrl.config.stored import parse_yaml
from navrl.loggers.format import count, duration
from navrl.storage.files import make_directory, read_text, to_json, write_atomically
from navrl.tune.plan import REPORTS, Plan
from navrl.tune.search import Found, Search
from navrl.tune.space import dimension_shown, typed_otherwise, words, written_value
from navrl.view.html import SEARCH, page

_AS_GOOD = 0.02  # of the best result: with --cost the cheapest trial within it is recommended
_LEFT_OUT = ("logger", "console")  # how a run is shown, not what it is
_PAGE, _PRESETS = "report.html", Path("conf/experiment")


class Best(NamedTuple):
    """The trial to go on with, and how."""

    trial: Found
    command: list[str]
    preset: Path | None  # None if the command adds or deletes keys, which a preset cannot


def write_results(plan: Plan, search: Search) -> str:
    """Write preset and page into the folder of the study; return the lines that sum it up."""
    found, front = search.found(), search.front()
    best = _best(plan, found, front)
    importance = search.importance()
    if best is not None and best.preset is not None:
        make_directory(best.preset.parent)
        write_atomically(best.preset, _preset(plan, best))
    data = page_data(plan, found, front, importance, best)
    write_atomically(plan.folder / _PAGE, page(SEARCH, data))
    return _summary(plan, found, front, importance, best)


def recommended(plan: Plan, found: Sequence[Found], front: Sequence[int]) -> Found | None:
    """Return the best trial; with --cost the cheapest of the front whose result is within 2 % of the best."""
    complete = [each for each in found if each.number in front and math.isfinite(each.score)]
    if not complete:
        return None
    best = max(complete, key=lambda each: each.score)
    if not plan.options.cost:
        return best
    least = best.score - _AS_GOOD * abs(best.score)
    return min((each for each in complete if each.score >= least), key=lambda each: each.cpu_s)


def frames_share(plan: Plan, found: Sequence[Found]) -> float:
    """Return the frames that were trained, as a share of those that no pruning would have needed."""
    over = [each for each in found if each.state in ("complete", "pruned")]
    whole = len(over) * plan.total_frames * len(plan.seeds)
    return sum(each.frames for each in over) / whole if whole else math.nan


def _best(plan: Plan, found: Sequence[Found], front: Sequence[int]) -> Best | None:
    trial = recommended(plan, found, front)
    if trial is None:
        return None
    typed = plan.options.overrides
    kept = typed_otherwise(typed, trial.params)
    command = ["navrl", "train", *_place(plan), *kept, *words(trial.params)]
    if any(word[:1] in "+~" for word in typed):
        return Best(trial, command, None)
    name = f"tuned-{plan.name.replace('.', '_')}"
    return Best(trial, command, plan.folder / _PRESETS / f"{name}.yaml")


def _place(plan: Plan) -> list[str]:
    conf = plan.options.config_dir
    return [] if conf is None else ["--config-dir", str(conf)]


# ---- a preset ------------------------------------------------------------------------------------


def _use(best: Best) -> str:
    """Return the command that uses the preset."""
    assert best.preset is not None
    folder = shown_path(best.preset.parents[1])
    return shell_line(["navrl", "train", "--config-dir", folder, f"experiment={best.preset.stem}"])


def _preset(plan: Plan, best: Best) -> str:
    """Return the YAML of the best trial's training: what was typed, and what was found."""
    groups, values = groups_and_values([*plan.options.overrides, *words(best.trial.params)])
    roots = _root_groups()
    lines = ["# @package _global_", f"# {_use(best)}"]
    lines.append(
        f"# Trial {best.trial.number} of the study {plan.name}: {plan.objective} {best.trial.score:.4g}."
    )
    chosen = {key: name for key, name in groups.items() if key not in (*_LEFT_OUT, "experiment")}
    base = [f"  - /experiment/{groups['experiment']}"] if "experiment" in groups else []
    base += [
        f"  - override /{key if key in roots else f'{key}@{key}'}: {_yaml(name)}"
        for key, name in chosen.items()
    ]
    if base:
        lines += ["defaults:", *base, "  - _self_"]
    nested: dict[str, Any] = {}
    for key, value in values.items():
        if key.partition(".")[0] not in (*_LEFT_OUT, "plugins"):
            _put(nested, key.split("."), value)
    return "\n".join([*lines, *_nested_lines(nested, "")]) + "\n"


def _root_groups() -> set[str]:
    """Return the groups of train.yaml itself; those of an env are chosen as group@group."""
    path = conf_dir() / "train.yaml"
    listed = parse_yaml(read_text(path), path)["defaults"]
    return {key for each in listed if isinstance(each, dict) for key in each}


def _put(nested: dict[str, Any], keys: list[str], value: Any) -> None:
    for key in keys[:-1]:
        nested = nested.setdefault(key, {})
    nested[keys[-1]] = value


def _nested_lines(nested: Mapping[str, Any], indent: str) -> list[str]:
    lines = []
    for key, value in nested.items():
        if isinstance(value, Mapping) and value:
            lines += [f"{indent}{key}:", *_nested_lines(value, f"{indent}  ")]
        else:
            lines.append(f"{indent}{key}: {_yaml(value)}")
    return lines


def _yaml(value: Any) -> str:
    """Return a value as JSON, which YAML reads alike; a float with a point, without which YAML sees text."""
    if isinstance(value, float) and math.isfinite(value):
        mantissa, _, exponent = repr(value).partition("e")
        point = mantissa if "." in mantissa else f"{mantissa}.0"
        return f"{point}e{exponent}" if exponent else point
    return to_json(value)


# ---- lines for a terminal ------------------------------------------------------------------------


def _summary(
    plan: Plan,
    found: Sequence[Found],
    front: Sequence[int],
    importance: Mapping[str, float],
    best: Best | None,
) -> str:
    if best is None:
        return f"no trial is complete yet\nwrote {plan.folder / _PAGE}\n"
    lines = [
        f"\n{plan.name}: {_counts(found)}; {frames_share(plan, found):.0%} of their frames trained"
    ]
    if plan.options.cost:
        rows = [each for each in found if each.number in front]
        rows.sort(key=lambda each: each.cpu_s)
        lines.append(f"trials that no other beats in both {plan.objective} and CPU seconds:")
        cells = [[f"  {r.number}", f"{r.score:.3f}", f"{r.cpu_s:.3g} s"] for r in rows]
        lines.append(columns([["  trial", plan.objective, "CPU"], *cells]).rstrip())
    begun = [each.score for each in found if each.params == plan.space.defaults]
    defaults = f", defaults {begun[0]:.3f}" if begun and math.isfinite(begun[0]) else ""
    score = f"{plan.objective} {best.trial.score:.3f}"
    none = bool(defaults) and not plan.options.cost and best.trial.score <= begun[0]
    better = ": nothing was found better than the defaults" if none else ""
    lines.append(f"best: trial {best.trial.number}, {score}{defaults}{better}")
    if importance:
        shares = ", ".join(f"{key} {share:.0%}" for key, share in list(importance.items())[:4])
        lines.append(f"what matters: {shares}")
    lines.append(f"next:\n  {shell_line(best.command)}")
    lines += [f"  {_use(best)}"] if best.preset is not None else []
    return "\n".join([*lines, f"wrote {plan.folder / _PAGE}"]) + "\n"


def _counts(found: Sequence[Found]) -> str:
    states = [each.state for each in found]
    return ", ".join(
        f"{states.count(state)} {state}"
        for state in ("complete", "pruned", "failed", "running", "waiting")
        if state in states
    )


# ---- the data of the page ------------------------------------------------------------------------


def page_data(
    plan: Plan,
    found: Sequence[Found],
    front: Sequence[int],
    importance: Mapping[str, float],
    best: Best | None,
) -> dict[str, Any]:
    """Return the data that the scripts of the page read."""
    seeds = f", {len(plan.seeds)} seeds each" if len(plan.seeds) > 1 else ""
    share = frames_share(plan, found)
    frames = f"{count(plan.total_frames)} frames{seeds}"
    cpu_s = math.fsum(each.cpu_s for each in found if math.isfinite(each.cpu_s))
    commands = [] if best is None else [shell_line(best.command)]
    commands += [] if best is None or best.preset is None else [_use(best)]
    return {
        "title": f"search {plan.name}",
        "subtitle": f"{_counts(found)}; {frames}; {duration(cpu_s)} of CPU time",
        "outcome": "" if best is None else f"{plan.objective} {best.trial.score:.3f}",
        "objective": plan.objective,
        "reports": REPORTS,
        "share": share if math.isfinite(share) else None,
        "best": None if best is None else best.trial.number,
        "front": list(front) if plan.options.cost else [],
        "commands": commands,
        "importance": [[key, share] for key, share in importance.items()],
        "dimensions": [dimension_shown(key, each) for key, each in plan.space.dimensions.items()],
        "trials": [_row(each) for each in found],
    }


def _row(trial: Found) -> dict[str, Any]:
    return {
        "number": trial.number,
        "state": trial.state,
        "score": _known(trial.score),
        "scores": [_known(each) for each in trial.scores],
        "cpu": _known(trial.cpu_s),
        "frames": trial.frames,
        "params": {key: written_value(value) for key, value in trial.params.items()},
        "values": [[step, _known(value)] for step, value in sorted(trial.values.items())],
        "fault": trial.fault,
    }


def _known(number: float) -> float | None:
    return number if math.isfinite(number) else None
