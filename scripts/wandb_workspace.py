"""Lay out the curves of a run as a workspace of Weights & Biases, with the panels of `navrl report`.

    .venv/bin/python scripts/wandb_workspace.py outputs/latest --output workspace.json   # nothing is sent
    .venv/bin/python scripts/wandb_workspace.py outputs/latest --entity me --save        # needs `wandb login`

The metrics of the run decide which panels there are. A saved workspace appears in the menu of the
project, and shows every run of it. Needs the package wandb-workspaces.
"""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # else importing wandb looks for a server

import wandb_workspaces.reports.v2 as wr
import wandb_workspaces.workspaces as ws

from navrl.loggers.jsonl import read_metrics
from navrl.storage.files import to_json, write_atomically
from timing import parser

_TIMES = ("collect", "update", "evaluate", "curriculum", "rollouts", "save")
_NOT_DRAWN = ("episode/count", "eval/policy_version", "sync/policy_version", "time/eta_s")
_BOUNDS = ("_low", "_high")


class Panel(NamedTuple):
    """A chart: its title, its metrics, and whether they are shares of a whole."""

    title: str
    metrics: Sequence[str]
    kind: str = "line"  # or stacked-area


def main() -> None:
    """Write the layout to a file, or save it at the server."""
    options_parser = parser(__doc__)
    options_parser.add_argument("run", type=Path)
    options_parser.add_argument(
        "--entity", default="me", help="the user or team that owns the project"
    )
    options_parser.add_argument("--project", default="navrl")
    options_parser.add_argument("--name", default="navrl report", help="of the workspace")
    options_parser.add_argument("--output", type=Path, help="write the layout to this JSON file")
    options_parser.add_argument("--save", action="store_true", help="save it at the server")
    options = options_parser.parse_args()
    names = list(
        dict.fromkeys(key for row in read_metrics(options.run / "metrics.jsonl") for key in row)
    )
    found = workspace(names, options.entity, options.project, options.name)
    if options.output is not None:
        write_atomically(options.output, to_json(layout(found), indent=2) + "\n")
        print(f"wrote {options.output}")
    if options.save:
        found.save()
        print(found.url)
    if options.output is None and not options.save:
        for section in found.sections:
            print(f"{section.name}: {len(section.panels)} panels")


def workspace(names: Sequence[str], entity: str, project: str, name: str) -> ws.Workspace:
    """Return the sections of `navrl report` for these metrics, with frames on the x axis."""
    sections = [
        ws.Section(
            name=title,
            is_open=title not in ("Updates", "Everything else"),
            layout_settings=ws.SectionLayoutSettings(columns=3, rows=2),
            panel_settings=ws.SectionPanelSettings(x_axis="frames"),
            panels=[
                wr.LinePlot(
                    title=panel.title,
                    x="frames",
                    y=list(panel.metrics),
                    plot_type=panel.kind,
                )
                for panel in panels
            ],
        )
        for title, panels in sections_of(names)
    ]
    media = ws.Section(name="Replay", is_open=True, panels=[wr.MediaBrowser(media_keys=["replay"])])
    return ws.Workspace(
        entity=entity,
        project=project,
        name=name,
        sections=[*sections, media],
        settings=ws.WorkspaceSettings(x_axis="frames", max_runs=20),
        runset_settings=ws.RunsetSettings(groupby=[ws.Metric("Group")]),
    )


def layout(found: ws.Workspace) -> dict[str, object]:
    """Return what is sent to the server, as JSON values."""
    view = found._to_model()
    spec = json.loads(view.spec.model_dump_json(by_alias=True, exclude_none=True))
    return {"entity": view.entity, "project": view.project, "name": view.display_name, "spec": spec}


def sections_of(names: Sequence[str]) -> list[tuple[str, list[Panel]]]:
    """Return title and panels of every section that has some, each metric once."""
    left = [name for name in names if "/" in name and not name.endswith(_BOUNDS)]
    left = [name for name in left if name not in _NOT_DRAWN]

    def take(wanted: Callable[[str], bool]) -> list[str]:
        found = [name for name in left if wanted(name)]
        left[:] = [name for name in left if name not in found]
        return found

    def one_each(*starts: str) -> list[Panel]:
        return [Panel(name, [name]) for name in take(lambda name: name.startswith(starts))]

    def together(title: str, wanted: Callable[[str], bool], kind: str = "line") -> list[Panel]:
        found = take(wanted)
        return [Panel(title, found, kind)] if found else []

    def starting(start: str) -> Callable[[str], bool]:
        return lambda name: name.startswith(start)

    times = [f"time/{part}" for part in _TIMES]
    sections = [
        ("Learning", list(_learning(take(_is_of_episodes)))),
        (
            "Reward",
            together("by term, of an episode", starting("reward/"))
            + together("of agents, per step", starting("low/reward/")),
        ),
        (
            "Skills",
            together("skills of the team", starting("skill/usage_Z_"), "stacked-area")
            + together("skills of agents", starting("skill/usage_z_"), "stacked-area")
            + one_each("skill/"),
        ),
        (
            "Rollouts",
            together(
                "decisions by the reason they ended", starting("high/ended_by/"), "stacked-area"
            )
            + one_each("sync/", "high/sync/", "low/sync/"),
        ),
        (
            "Performance",
            one_each("time/fps", "time/collect_fps")
            + together("seconds of an iteration, by part", times.__contains__)
            + one_each("memory/", "time/"),
        ),
        ("Updates", one_each("loss/", "policy/", "high/", "low/", "discriminator/")),
        ("Everything else", one_each("")),
    ]
    return [(title, panels) for title, panels in sections if panels]


def _is_of_episodes(name: str) -> bool:
    return name.startswith("episode/") or (
        name.startswith("eval/") and not name.startswith(("eval/reward_", "eval/policy_version"))
    )


def _learning(names: Sequence[str]) -> Iterator[Panel]:
    """Yield a panel for every statistic, of training episodes and of evaluations together."""
    for statistic in dict.fromkeys(name.partition("/")[2] for name in names):
        both = (f"episode/{statistic}", f"eval/{statistic}")
        yield Panel(statistic, [name for name in both if name in names])


if __name__ == "__main__":
    main()
