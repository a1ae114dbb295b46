"""Searches whose trainings are written at once, by a formula instead of a simulation."""

import json
from pathlib import Path

from navrl.tune.plan import Options, Plan
from navrl.tune.space import Choices, Range, Space

FRAMES = 1000  # of a training, in ten iterations


def plan(folder: Path, **changes) -> Plan:
    """A plan of a search for `win` over a learning rate and a number of epochs."""
    of_options = {name: changes.pop(name) for name in Options._fields if name in changes}
    options = Options(
        **{
            **{"study": None, "space": None, "overrides": ["env=combat", "agent=ppo"]},
            **{"trials": 3, "seeds": 1, "pruner": "none", "cost": False},
            **{"storage": None, "config_dir": None},
            **of_options,
        }
    )
    rate, epochs = "agent.optimizer.learning_rate", "agent.num_epochs"
    dimensions = {rate: Range(1e-4, 1e-2, True, None), epochs: Choices((2, 4, 8))}
    space = Space("made", dimensions, {rate: 5e-4, epochs: 4})
    seeds = tuple(range(options.seeds))
    folder.mkdir(exist_ok=True)
    (folder / "trials").mkdir(exist_ok=True)
    made = Plan(options, folder, space, seeds, "win", "episode/win", FRAMES)
    return made._replace(**changes)


def write_training(folder: Path, score: float, *, iterations: int = 10, cpu_s: float = 2.0) -> None:
    """The files of a training; it has finished if all ten iterations are there."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [
        {
            **{"iteration": i, "frames": FRAMES * i // 10, "episode/win": score * i / 10},
            **{"episode/count": 5.0, "time/cpu": 90.0 if i == 1 else cpu_s},
        }
        for i in range(1, iterations + 1)
    ]
    (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    if iterations == 10:
        summary = {"eval/crank/win": score - 0.1, "eval/straight/win": score + 0.1, "eval/win": 9.0}
        (folder / "summary.json").write_text(json.dumps(summary))
        (folder / "status.json").write_text('{"state": "finished"}')
