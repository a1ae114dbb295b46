"""The env of drone navigation: one drone flies to its goal among static and moving obstacles."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Unpack

import torch
from tensordict import TensorDictBase
from torch import Tensor

from navrl.envs.core import specs
from navrl.envs.core.env import BatchedEnv, EnvOptions, World
from navrl.envs.core.rewards import WeightedReward
from navrl.envs.navigation.observation import AXES, NavigationObservation
from navrl.envs.navigation.planners.base import Planner, perceive
from navrl.envs.navigation.planners.shield import NoShield, Shield
from navrl.envs.navigation.planners.sound_shield import SoundShield
from navrl.envs.navigation.planners.static_prediction import Surroundings
from navrl.envs.navigation.sim.advance import Events, advance, initial_state, near_obstacles
from navrl.envs.navigation.sim.drone import limit_speed
from navrl.envs.navigation.sim.params import NavigationParams
from navrl.envs.navigation.sim.state import (
    NavigationState,
    heading,
    length,
    to_goal_frame,
    to_world_frame,
)
from navrl.envs.navigation.worlds.pool import Difficulty, WorldPool
from navrl.storage.schema import Having, check, numbers, whole

_AXES = 3


class NavigationEnv(BatchedEnv):
    """Drone navigation; the action is a velocity in the goal frame over the speed limit: ahead, left, up."""

    params: NavigationParams
    _observation: NavigationObservation
    action = specs.Bounds(-1.0, 1.0, columns=_AXES)
    rate_names = ("success", "collision_static", "collision_moving", "outside", "timeout")
    statistic_names = (
        *rate_names,
        *("at_goal", "spl", "goal_time_s", "path_m", "clearance_m", "speed_mps"),
        *("acceleration_mps2", "interventions", "shield_mps", "_stage"),
    )
    share_names = ("at_goal", "spl", "interventions")
    scripted_group = "planner"  # the config group whose options can replace the policy
    counted_when = MappingProxyType({"goal_time_s": "success"})

    def __init__(
        self,
        *,
        held_out: bool,
        sim: NavigationParams,
        worlds: WorldPool,
        observation: NavigationObservation,
        shield: Shield | SoundShield | NoShield,
        reward: WeightedReward,
        stale_scan: bool,
        **options: Unpack[EnvOptions],
    ) -> None:
        self.worlds, self._held_out = worlds, held_out
        self.shield, self._stale_scan = shield, stale_scan
        self._steps = 0  # since the seed was set; worlds are renewed by it
        shield.prepare(sim.checked())
        worlds.prepare(sim, options["device"])
        super().__init__(sim=sim, observation=observation, reward=reward, **options)

    def initial(self, key: Tensor) -> NavigationState:
        """Return drones that hover at the start of a random route in a random world."""
        return initial_state(self.params, self.worlds.openings, self.worlds.share, key)

    def advance(self, state: NavigationState, action: Tensor) -> tuple[NavigationState, Events]:
        """Convert the action to a command, pass it through the shield, and fly it."""
        limit_mps, kind = self.params.speed_limit_mps, self.params.speed_limit
        wanted = limit_speed(action * limit_mps, limit_mps, kind)
        command = to_world_frame(heading(self.params, state), wanted)
        grid, worlds = self.worlds.grid, self.worlds.openings.worlds
        around = Surroundings(grid, worlds, state.world.to(torch.int64))
        flown = self.shield.protect(perceive(self.params, state), around, command).velocity
        return advance(self.params, grid, worlds, state, command, flown)

    def observe(self, state: NavigationState) -> dict[str, Tensor]:
        """Return the leaves of the configured observation."""
        rows = self._observation.rows(self.params, state, near_obstacles(self.params, state))
        return {f"observation/{leaf}": row for leaf, row in rows.items()}

    def judge(self, state: NavigationState) -> tuple[Tensor, Tensor]:
        """Terminate on a collision, outside, and with goal_ends at the goal; truncate when the time is up."""
        ending = state.ending
        terminated = ending.hit_static | ending.hit_moving | ending.outside
        if self.params.goal_ends:
            terminated = terminated | ending.reached
        return terminated, state.decision >= self.params.decisions

    def statistics(self, state: NavigationState) -> list[Tensor]:
        """Return the five exclusive outcomes, and the measures of the flight."""
        params, ending, tally = self.params, state.ending, state.tally
        decisions = state.decision.clamp_min(1.0)
        reached = ending.reached
        straight = length(state.goal - state.start) - params.goal_radius_m
        late = state.decision >= params.decisions
        failed = ending.hit_static | ending.hit_moving | ending.outside
        rates = [
            reached,
            ending.hit_static & ~reached,
            ending.hit_moving & ~reached,
            ending.outside & ~reached,
            late & ~reached & ~failed,
            ending.at_goal,
        ]
        return [
            *(rate.float() for rate in rates),
            reached * (straight / torch.maximum(tally.path_m, straight)).clamp(0.0, 1.0),
            reached * tally.time_s,  # a mean over the successes: see counted_when
            tally.path_m,
            tally.clearance_m,
            tally.path_m / tally.time_s.clamp_min(params.decision_s),
            tally.jolt_mps / (decisions * params.decision_s),
            tally.interventions / decisions,
            tally.change_mps / decisions,
            state.stage,
        ]

    def pilot_action(
        self, pilot: Planner, memory: tuple[Tensor, ...] | None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return the action of a planner in place of the policy; memory None begins an episode."""
        state: NavigationState = self.state
        if memory is None:
            pilot.prepare(self.params.lidar)
            memory = pilot.initial(self._env_id.shape[0], self.device)
        command, memory = pilot.act(perceive(self.params, state), memory)
        action = to_goal_frame(heading(self.params, state), command) / self.params.speed_limit_mps
        return action.clamp(-1.0, 1.0).t().contiguous(), memory

    @property
    def decision_s(self) -> float:
        """Return the time between two actions."""
        return float(self.params.decision_s)

    @property
    def column_names(self) -> dict[str, Sequence[str]]:
        """Return the columns of every leaf, and of "action"."""
        unit = f"[{self.params.speed_limit_mps:g} m/s]"
        return {**super().column_names, "action": [f"velocity {axis} {unit}" for axis in AXES]}

    def step_and_maybe_reset(
        self, tensordict: TensorDictBase
    ) -> tuple[TensorDictBase, TensorDictBase]:
        """Renew the worlds when due, then step as every env does."""
        self.worlds.renew(self._seed, self._steps)
        self._steps += 1
        return super().step_and_maybe_reset(tensordict)

    def _set_seed(self, seed: int | None) -> None:
        """Make the worlds of the seed, and count episodes from 0."""
        super()._set_seed(seed)
        self._steps = 0
        self.worlds.fill(self._seed, held_out=self._held_out)

    @contextlib.contextmanager
    def other_episodes(self, seed: int) -> Iterator[None]:
        """Play episodes in held-out worlds, then restore the current ones."""
        kept = self._steps, self._held_out
        self._held_out = True
        try:
            with self.worlds.restored(), super().other_episodes(seed):
                yield
        finally:
            self._steps, self._held_out = kept

    def runtime_state(self) -> dict[str, Any]:
        """Return everything that a fresh env needs to continue, for a checkpoint."""
        worlds = {"steps": self._steps, "worlds": self.worlds.state_dict()}
        return super().runtime_state() | worlds

    def load_runtime_state(self, runtime: dict[str, Any]) -> None:
        """Restore a runtime_state of an env with the same options."""
        check(runtime, Having({"steps": whole(), "worlds": self.worlds.schema()}), "env")
        super().load_runtime_state(runtime)
        self._steps = runtime["steps"]
        self.worlds.load_state_dict(runtime["worlds"], self._seed)

    def check_state(self, state: NavigationState) -> None:
        """Raise CheckpointMismatch about drones in worlds that there are not."""
        most = self.worlds.openings.stage.shape[0] - 1
        world = numbers(state.world.dtype, state.world.shape, least=0, most=most)
        check(state.world, world, "env/world, the world of each drone")

    def _restarted(self, world: World, mask: Tensor, seed: Tensor) -> World:
        """Reset the masked envs; with stale_scan they keep the last scan of the episode before."""
        restarted = super()._restarted(world, mask, seed)
        if not self._stale_scan:
            return restarted
        before: Any = world.state
        after: Any = restarted.state
        return restarted._replace(state=after._replace(scans=before.scans))

    def check_difficulty(self, prefix: str, difficulty: Difficulty) -> None:
        """Raise ConfigError for a difficulty that the worlds have no room for."""
        difficulty.checked(prefix, self.worlds.room)

    def set_stages(self, stages: list[Difficulty], shares: Mapping[int, float]) -> None:
        """Set the difficulties and shares of the worlds that are made from now on."""
        self.worlds.set_stages(stages, dict(shares))

    def start_over(self) -> None:
        """Make worlds of the current stages, and count episodes from 0."""
        self._set_seed(int(self._seed))
