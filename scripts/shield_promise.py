"""Measure how many of the commands that a shield calls safe reach something static.

    .venv/bin/python scripts/shield_promise.py [POLICY ...] [key=value ...] [--seeds 1 2 3 4 5]

Held-out episodes of env=navigation behind shield=sound, or another that is named (shield=on). Every few
decisions the commands that fly are held for the horizon, in copies of the simulator, with the drones of these
episodes. A flight that comes nearer to a static obstacle than the body's radius breaks the promise where the
command was called safe. The rates are those of the episodes themselves.
"""

from typing import Any

import torch
from tensordict import TensorDictBase

from navrl.contracts import Policy
from navrl.envs.navigation.planners.base import perceive
from navrl.envs.navigation.planners.static_prediction import Surroundings
from navrl.envs.navigation.sim import drone as drones
from navrl.envs.navigation.sim.clearance import clearance_in_sight_m
from navrl.envs.navigation.sim.drone import limit_speed
from navrl.envs.navigation.sim.state import heading, to_world_frame
from navrl.run.build import build_env
from navrl.run.device import prepare_process
from navrl.run.episodes import play
from navrl.run.policies import build_policy, find_policy
from timing import parser

_RATES = ("success", "collision_static", "collision_moving", "timeout")


class Promises:
    """A policy whose commands are followed behind the shield."""

    def __init__(self, env: Any, policy: Policy, every: int) -> None:
        self._env, self._policy, self._every = env, policy, every
        self.decisions = self.safe = self.broken = 0

    @torch.no_grad()
    def __call__(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Act as the policy does; now and then hold what the shield makes of it."""
        acted = self._policy(tensordict)
        if self.decisions % self._every == 0:
            self._hold(acted.get("action"))
        self.decisions += 1
        return acted

    def _hold(self, action: torch.Tensor) -> None:
        env, state = self._env, self._env.state
        params, grid, worlds = env.params, env.worlds.grid, env.worlds.openings.worlds
        limit_mps = params.speed_limit_mps
        wanted = limit_speed(action.t() * limit_mps, limit_mps, params.speed_limit)
        command = to_world_frame(heading(params, state), wanted)
        world = state.world.to(torch.int64)
        around = Surroundings(grid, worlds, world)
        velocity, _, safe = env.shield.protect(perceive(params, state), around, command)
        drone, least_m = state.drone, torch.full_like(state.decision, torch.inf)
        for _ in range(round(env.shield.horizon_s / params.decision_s)):
            last = drone.position
            drone = drones.advance(params.drone, drone, velocity, state.factors, params.decision_s)
            way = drone.position - last
            gap_m = clearance_in_sight_m(grid, worlds, world, drone.position, way)
            least_m = torch.minimum(least_m, gap_m)
        self.safe += int(safe.sum())
        self.broken += int((safe & (least_m < params.body_radius_m)).sum())


def main() -> None:
    """Print a line for every policy and seed, and one for all seeds."""
    options_parser = parser(__doc__)
    options_parser.add_argument("words", nargs="*", metavar="POLICY or KEY=VALUE")
    options_parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    options_parser.add_argument("--episodes", type=int, default=256, help="of each seed")
    options_parser.add_argument("--every", type=int, default=6, help="decisions between two tests")
    options = options_parser.parse_intermixed_args()
    prepare_process(threads=1)
    overrides = [word for word in options.words if "=" in word]
    policies = [word for word in options.words if "=" not in word] or ["scripted:greedy"]
    print(
        f"{'policy':<28} {'seed':>5} {'called safe':>12} {'broken':>7} {'share':>9}   {' '.join(_RATES)}"
    )
    for name in policies:
        rows = [_row(name, seed, overrides, options) for seed in options.seeds]
        _show(name, "all", [sum(column) for column in zip(*rows, strict=True)])


def _row(name: str, seed: int, overrides: list[str], options: Any) -> list[float]:
    chosen = ["env=navigation", "shield=sound", "world.count=16", *overrides]
    config, state, _, _ = find_policy(name, device="cpu", overrides=chosen)
    env: Any = build_env(config, num_envs=options.episodes, seed=seed, compile_mode="off")
    env.set_seed(seed)
    followed = Promises(env, build_policy(name, config, state, env), options.every)
    ends = play(env, followed, deterministic=True)
    row = [followed.safe, followed.broken, options.episodes, *(sum(ends[rate]) for rate in _RATES)]
    _show(name, str(seed), row)
    return row


def _show(name: str, seed: str, row: list[float]) -> None:
    safe, broken, episodes, *ended = row
    rates = "  ".join(f"{rate / episodes:.4f}" for rate in ended)
    share = broken / max(1, safe)
    print(f"{name:<28} {seed:>5} {safe:>12.0f} {broken:>7.0f} {share:>9.3%}   {rates}", flush=True)


if __name__ == "__main__":
    main()
