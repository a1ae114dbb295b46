"""Measure the share of collection that opponents cost: every script, a mixture, a policy, a league.

    .venv/bin/python scripts/bench_opponents.py [num_envs=1024] [agent.network.hidden_sizes=[64,64]] ...

All collect in turns with `nobody`, an opponent that holds the stick still; the additional time of a rollout
is the cost of the opponent. The policies are fresh ones: learning changes no time.
"""

import copy
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from navrl.collectors.sync import SyncCollector
from navrl.config.compose import build, compose
from navrl.envs.combat.opponents.base import Pilot
from navrl.envs.combat.opponents.frozen import Frozen, PolicyAdapter
from navrl.envs.combat.opponents.league import League
from navrl.envs.combat.sim.state import CombatParams, CombatState, Command
from navrl.run.device import prepare_process
from timing import alternate, median, parser

NOBODY = "nobody"
SCRIPTS = ("straight", "pursuit", "random", "crank_seed", "crank", "phase2", "phase3", "stg_rule")
OPPONENTS = (*SCRIPTS, "mixture", "scripts", "checkpoint", "league")
REQUIRED_SHARE = 0.15


class Nobody(Pilot):
    """An opponent that costs nothing."""

    def initial(self, key: Tensor) -> tuple[Tensor, ...]:
        """Return no memory."""
        return ()

    def act(
        self, params: CombatParams, state: CombatState, me: int, memory: tuple[Tensor, ...]
    ) -> tuple[Command, tuple[Tensor, ...]]:
        """Fly straight on."""
        still = torch.zeros_like(state.decision, dtype=torch.float32)
        return Command(rudder=still, throttle=still, fire=still > 0.0), ()


def main() -> None:
    """Print milliseconds and shares."""
    options = parser(__doc__, overrides=True, repeats=25).parse_args()
    times_ms = measure(options.overrides, OPPONENTS, options.repeats)
    print(f"{'opponent':<14}{'ms a rollout':>14}{'its share':>12}   required <= {REQUIRED_SHARE:g}")
    for name, time_ms in times_ms.items():
        share = 1.0 - times_ms[NOBODY] / time_ms
        print(f"{name:<14}{time_ms:14.1f}{share:12.3f}   {verdict(share)}")


def verdict(share: float) -> str:
    """Return a word for a share that is too large."""
    return "" if share <= REQUIRED_SHARE else "MISSED"


def measure(overrides: list[str], opponents: tuple[str, ...], repeats: int) -> dict[str, float]:
    """Return the median milliseconds of a rollout against each of them, and against nobody."""
    prepare_process(compose("train", overrides).threads)
    sections: dict[str, Callable[[], object]] = {}
    for name in (NOBODY, *opponents):
        _, rollouts = collection(overrides, name)
        sections[name] = functools.partial(next, rollouts)
    samples = alternate(sections, repeats, warm=1)
    return {name: median(times).clock * 1000.0 for name, times in samples.items()}


def collection(overrides: list[str], opponent: str) -> tuple[Any, Iterator[TensorDictBase]]:
    """Return an env with this opponent, and its rollouts."""
    torch.manual_seed(0)
    chosen = [] if opponent == NOBODY else [f"opponent={opponent}"]
    cfg = compose("train", [*overrides, *chosen])
    changed = {"opponent": Nobody()} if opponent == NOBODY else {}
    env = build(cfg.env)(num_envs=cfg.num_envs, device="cpu", seed=0, **changed)
    agent = build(cfg.agent)(
        observation_spec=env.observation_spec,
        action_spec=env.action_spec,
        device="cpu",
        num_iterations=1,
    )
    if isinstance(env.opponent, Frozen):
        seat = PolicyAdapter(
            observation=build(cfg.observation), action=build(cfg.action), compile_mode=cfg.compile
        )
        seat.prepare(env.params, env.device)
        env.opponent.install(copy.deepcopy(agent.policy).requires_grad_(False), seat)
    steps = cfg.rollout_steps
    collector = SyncCollector(env=env, policy=agent.policy, rollout_steps=steps, total_frames=-1)
    rollouts = iter(collector)
    if isinstance(env.opponent, League):  # the learner's first snapshot in every seat
        self_play = build(compose("train", ["curriculum=league"]).curriculum.self_play)
        self_play.attach(env, agent)
        self_play.after(0, next(rollouts))
    return env, rollouts


if __name__ == "__main__":
    main()
