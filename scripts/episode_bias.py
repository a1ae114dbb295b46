"""Compare statistics of training episodes with held-out episodes of the same policies.

The run has to keep every rollout and checkpoint:

    .venv/bin/python -m navrl.train experiment=demo checkpoint.save_every=1 checkpoint.keep_last=1000 \
        rollouts=disk rollouts.save_every=1 rollouts.keep_last=1000 'rollouts.drop=[observation]'
    .venv/bin/python scripts/episode_bias.py <run> --iterations 2 4 8 16 32

`ended`: of the episodes that ended in the iteration. `began`: of those that began in it, which is what
metrics.jsonl reports. `sampled` and `best`: of held-out episodes of the policy that collected the iteration,
with actions drawn as in training, and with the most probable ones.
"""

from pathlib import Path

import navrl
from navrl.run.intervals import Interval, wilson
from navrl.storage import load_rollout
from timing import parser

LONGEST = 12  # iterations that an episode may last


def main() -> None:
    """Print a row for every iteration."""
    options_parser = parser(__doc__)
    options_parser.add_argument("run", type=Path)
    options_parser.add_argument("--iterations", type=int, nargs="+", required=True)
    options_parser.add_argument("--rate", type=int, default=2, help="column of next/episode")
    options_parser.add_argument("--name", default="win", help="the same statistic by name")
    options = options_parser.parse_args()
    print("| iteration | ended | began | sampled | best |\n|---|---|---|---|---|")
    for iteration in options.iterations:
        ended, began = trained(options.run, iteration, options.rate)
        files = sorted(options.run.glob("checkpoints/step_*.ckpt"))
        sampled, best = (
            held_out(files[iteration - 2], options.name, deterministic)
            for deterministic in (False, True)
        )
        cells = " | ".join(map(shown, (ended, began, sampled, best)))
        print(f"| {iteration} | {cells} |", flush=True)


def trained(run: Path, iteration: int, column: int) -> tuple[Interval, Interval]:
    """Return the rate among the episodes that ended in an iteration, and among those that began in it."""
    ended: list[float] = []
    began: list[float] = []
    for later in range(LONGEST + 1):
        file = run / "rollouts" / f"rollout_{iteration + later:06d}.nvrl"
        if not file.exists():
            break
        rollout = load_rollout(file)
        done = rollout["next", "done"].squeeze(-1)
        steps = done.shape[1]
        for env, step in done.nonzero().tolist():
            episode = rollout["next", "episode"][env, step]
            won = float(episode[column])
            ended += [won] if later == 0 else []
            began += [won] if 0 <= later * steps + step + 1 - int(episode[1]) < steps else []
    return tuple(wilson(sum(won), len(won)) for won in (ended, began))


def held_out(checkpoint: Path, name: str, deterministic: bool) -> Interval:
    """Return the rate in 1,000 episodes of a saved policy."""
    records = navrl.evaluate(checkpoint, deterministic=deterministic)
    (found,) = (record for record in records if record.metric == name)
    return Interval(found.mean, found.low, found.high, found.episodes)


def shown(found: Interval) -> str:
    """Return a rate with its interval."""
    return f"{found.mean:.3f}, {found.low:.3f} .. {found.high:.3f}" if found.n else "-"


if __name__ == "__main__":
    main()
