"""What share of collection the opponents cost: every script, all of them at once, a policy, a league.

    .venv/bin/python scripts/bench_opponents.py [num_envs=1024] [agent.network.hidden_sizes=[64,64]] ...

Takes the options of `python -m navrl.train`. All of them collect in turns with `nobody`, who holds the stick
still; what a rollout takes longer than his is what the opponent costs. The policies are fresh ones: what they
have learned changes no time.
"""

import copy
import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from navrl.collectors.sync import SyncCollector
from navrl.commands.bench import alternate
from navrl.config.compose import build, compose
from navrl.envs.combat.opponents.base import Pilot
from navrl.envs.combat.opponents.frozen import Frozen, PolicyAdapter
from navrl.envs.combat.opponents.league import League
from navrl.envs.combat.sim.state import CombatParams, CombatState, Command
from navrl.run.device import prepare_process

NOBODY = "nobody"
SCRIPTS = ("straight", "pursuit", "random", "crank_seed", "crank", "phase2", "phase3", "stg_rule")
OPPONENTS = (*SCRIPTS, "mixture", "scripts", "checkpoint", "league")
REQUIRED_SHARE = 0.15
REPEATS = 25  # of which the median counts


class Nobody(Pilot):
    """Costs nothing."""

    def initial(self, key: Tensor) -> tuple[Tensor, ...]:
        """Remembers nothing."""
        return ()

    def act(
        self, params: CombatParams, state: CombatState, me: int, memory: tuple[Tensor, ...]
    ) -> tuple[Command, tuple[Tensor, ...]]:
        """Straight on."""
        still = torch.zeros_like(state.decision, dtype=torch.float32)
        return Command(rudder=still, throttle=still, fire=still > 0.0), ()


def main() -> None:
    """Print milliseconds and shares."""
    times_ms = measure(sys.argv[1:], OPPONENTS, REPEATS)
    print(f"{'opponent':<14}{'ms a rollout':>14}{'its share':>12}   required <= {REQUIRED_SHARE:g}")
    for name, time_ms in times_ms.items():
        share = 1.0 - times_ms[NOBODY] / time_ms
        print(f"{name:<14}{time_ms:14.1f}{share:12.3f}   {verdict(share)}")


def verdict(share: float) -> str:
    """Whether that is little enough."""
    return "" if share <= REQUIRED_SHARE else "MISSED"


def measure(overrides: list[str], opponents: tuple[str, ...], repeats: int) -> dict[str, float]:
    """Median milliseconds of a rollout against each of them, and against nobody."""
    prepare_process(compose("train", overrides).threads)
    sections: dict[str, Callable[[], object]] = {}
    for name in (NOBODY, *opponents):
        _, rollouts = collection(overrides, name)
        sections[name] = functools.partial(next, rollouts)
    return {name: spread.p50 * 1000.0 for name, spread in alternate(sections, repeats).items()}


def collection(overrides: list[str], opponent: str) -> tuple[Any, Iterator[TensorDictBase]]:
    """An env with this opponent, and its rollouts."""
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
