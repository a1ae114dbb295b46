"""`checkpoint`: a trained policy that no longer learns, with the observation and action of its training."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor
from torchrl.envs.utils import ExplorationType, exploration_type

from navrl.config.checks import ConfigError
from navrl.envs.combat.actions import ActionKind
from navrl.envs.combat.observations.base import Observation
from navrl.envs.combat.opponents.base import Memory, Pilot
from navrl.envs.combat.sim.state import CombatParams, CombatState, Command, can_fire, sides
from navrl.envs.core.compiling import CompiledEach, CompiledSample
from navrl.envs.core.reductions import any_row
from navrl.envs.core.specs import AGENT_ID
from navrl.ranks.noise import by_shards


class PolicyAdapter:
    """Turns the state into a policy's observation, and its actions into commands."""

    def __init__(
        self, *, observation: Observation, action: ActionKind, compile_mode: str | bool
    ) -> None:
        self.observation, self.action, self.compile_mode = observation, action, compile_mode
        self._leaves = CompiledEach(self._leaves_eager, compile_mode)

    def prepare(self, params: CombatParams, device: torch.device | str) -> None:
        """Build the tables of the observation."""
        self.observation.prepare(params, device)

    def observe(self, params: CombatParams, state: CombatState, me: int) -> TensorDict:
        """Return the observation of aircraft `me` in every env, (N,)."""
        leaves, mask = self._leaves(me, params, state)
        size = [mask.shape[0]]
        flags = self._identity(params, me, mask.device).expand(*size, -1)
        observation = TensorDict({**leaves, AGENT_ID: flags}, batch_size=size)
        return TensorDict({"observation": observation, "action_mask": mask}, batch_size=size)

    def _leaves_eager(
        self, me: int, params: CombatParams, state: CombatState
    ) -> tuple[dict[str, Tensor], Tensor]:
        rows = self.observation.rows(params, state, me)
        enemies_alive = sides(params, state.aircraft.alive)[1 - params.teams[me]]
        if self.action.team_size == 1:  # trained alone; among several it sees the nearest enemy
            enemies_alive = any_row(enemies_alive).unsqueeze(0)
        mask = self.action.mask(can_fire(params, state)[me], enemies_alive)
        leaves = {name: leaf.movedim(-1, 0).contiguous() for name, leaf in rows.items()}
        return leaves, mask.t().contiguous()

    def command(self, dist: Any) -> Command:
        """Draw a command (N,) from a distribution of actions, or take the likeliest if deterministic."""
        return self.action.command(dist.deterministic_sample if _is_steady() else dist.sample())

    def _identity(self, params: CombatParams, me: int, device: torch.device) -> Tensor:
        """Return one flag for each aircraft of the team it was trained in, 1 for `me`."""
        team = [i for i, side in enumerate(params.teams) if side == params.teams[me]]
        place = team.index(me) if self.action.team_size > 1 else 0
        return (torch.arange(self.action.team_size, device=device) == place).float()


def _is_steady() -> bool:
    return exploration_type() in (ExplorationType.DETERMINISTIC, ExplorationType.MODE)


class _CompiledOpponents(CompiledSample):
    name = "the opponents' policies"


class Decision:
    """Commands (N,) by networks: drawn while a run collects, in one graph; the likeliest if deterministic.

    `outputs` returns the rows for `head`.
    """

    def __init__(
        self, outputs: Callable[[TensorDict], Tensor], head: Any, adapter: PolicyAdapter
    ) -> None:
        self._outputs, self._head, self._adapter = outputs, head, adapter
        self._keys: list[Any] = []
        self._draw = _CompiledOpponents(self._draw_eager, adapter.compile_mode)

    @torch.no_grad()
    def __call__(self, observed: TensorDict) -> Command:
        """Return the commands for what is observed."""
        if _is_steady():
            return self._command(observed)
        self._keys = list(observed.keys(include_nested=True, leaves_only=True))
        return self._draw(*(observed.get(key) for key in self._keys))

    def _draw_eager(self, *columns: Tensor) -> Command:
        observed = TensorDict(dict(zip(self._keys, columns, strict=True)), columns[0].shape[:1])
        return self._command(observed)

    def _command(self, observed: TensorDict) -> Command:
        dist = self._head.distribution(self._outputs(observed), observed)
        return self._adapter.command(dist)


def check_playable(policy: Any) -> None:
    """Raise if the policy decides for its whole team at once, or remembers earlier steps."""
    if not (hasattr(policy, "trunk") and hasattr(policy, "head")):
        raise ConfigError(
            "the policy decides for its whole team at once, as that of agent=hmasd does; expected one that "
            "flies every aircraft by its own observation; choose agent=ppo, ippo or mappo"
        )
    if policy.trunk.memory.size:
        raise ConfigError(
            "the policy remembers from step to step; expected one that flies by its current observation, "
            "since the memories of opponents are not kept; use agent.network.rnn=none"
        )


class Frozen(Pilot):
    """One trained policy; `opponent=checkpoint opponent.checkpoint=...` names the file it comes from.

    Like the learner it draws its actions while a run collects, and takes the most probable ones in
    deterministic play.
    """

    compilable = False

    def __init__(self, *, checkpoint: str, observation: Observation, action: ActionKind) -> None:
        self.checkpoint = checkpoint
        self.policy: Any = None
        self._adapter = PolicyAdapter(observation=observation, action=action, compile_mode="off")

    def install(self, policy: Any, adapter: PolicyAdapter) -> None:
        """Fly with this policy, with the observation and action of its training."""
        check_playable(policy)
        self.policy, self._adapter = policy, adapter
        self._decide = Decision(partial(by_shards, policy.trunk), policy.head, adapter)

    def prepare(self, params: CombatParams, device: torch.device | str) -> None:
        """Build the tables of the observation."""
        self._adapter.prepare(params, device)

    def act(
        self, params: CombatParams, state: CombatState, me: int, memory: Memory
    ) -> tuple[Command, Memory]:
        """Return the policy's command."""
        if self.policy is None:
            raise ConfigError(
                f"opponent.checkpoint = {self.checkpoint} can only be the opponent of an env, or a pilot of "
                "a tournament; expected a scripted pilot in the learner's seat; choose another"
            )
        with torch.no_grad():
            return self._decide(self._adapter.observe(params, state, me)), ()
