"""A trained policy that no longer learns, as a pilot: it sees what its own aircraft is told."""

from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor
from torchrl.envs.utils import ExplorationType, exploration_type

from navrl.envs.combat.observations.base import Observation
from navrl.envs.combat.opponents.base import Command, Pilot
from navrl.envs.combat.sim.state import CombatParams, CombatState, can_fire, sides
from navrl.envs.core.compiling import CompiledEach
from navrl.envs.core.specs import AGENT_ID


class Seat:
    """What turns the state into a policy's frames, and its actions into commands."""

    def __init__(self, *, observation: Observation, action: Any, compile_mode: str | bool) -> None:
        self.observation, self.action = observation, action
        self._tell = CompiledEach(self._tell_eager, compile_mode)

    def prepare(self, params: CombatParams, device: torch.device | str) -> None:
        """Let the observation make its tables."""
        self.observation.prepare(params, device)

    def frames(self, params: CombatParams, state: CombatState, me: int) -> TensorDict:
        """What aircraft `me` is told in every env, (N,)."""
        leaves, mask = self._tell(me, params, state)
        size = [mask.shape[0]]
        flags = _identity(params, me, mask.device).expand(*size, -1)
        told = TensorDict({**leaves, AGENT_ID: flags}, batch_size=size)
        return TensorDict({"observation": told, "action_mask": mask}, batch_size=size)

    def _tell_eager(
        self, me: int, params: CombatParams, state: CombatState
    ) -> tuple[dict[str, Tensor], Tensor]:
        rows = self.observation.rows(params, state, me)
        enemies_alive = sides(params, state.aircraft.alive)[1 - params.teams[me]]
        mask = self.action.mask(can_fire(params, state)[me], enemies_alive)
        leaves = {name: leaf.movedim(-1, 0).contiguous() for name, leaf in rows.items()}
        return leaves, mask.t().contiguous()

    def command(self, dist: Any) -> Command:
        """What this distribution of actions says, (N,); drawn, or the likeliest in deterministic play."""
        steady = exploration_type() in (ExplorationType.DETERMINISTIC, ExplorationType.MODE)
        order = self.action.orders(dist.deterministic_sample if steady else dist.sample())
        return Command(order.rudder, order.throttle, order.fire, order.target)


def _identity(params: CombatParams, me: int, device: torch.device) -> Tensor:
    """One flag for each aircraft of the team: which of them `me` is."""
    team = [i for i, side in enumerate(params.teams) if side == params.teams[me]]
    return (torch.arange(len(team), device=device) == team.index(me)).float()


def check_seats_one(policy: Any) -> None:
    """Refuse a policy that decides for its whole team at once, and remembers what."""
    if not (hasattr(policy, "trunk") and hasattr(policy, "head")):
        raise ValueError(
            "the policy decides for its whole team at once, as that of agent=hmasd does; expected one that "
            "flies every aircraft by what that one is told; choose agent=ppo, ippo or mappo"
        )
    if policy.trunk.memory.size:
        raise ValueError(
            "the policy remembers from step to step; expected one that flies by what it is told now, since "
            "nobody keeps the memories of opponents; use agent.rnn=none"
        )


class Frozen(Pilot):
    """One trained policy; `opponent=checkpoint opponent.checkpoint=...` names the file it comes from.

    Like the learner it draws its actions while a run collects, and takes the most probable ones in
    deterministic play.
    """

    compilable = False

    def __init__(self, *, checkpoint: str, observation: Observation, action: Any) -> None:
        self.checkpoint = checkpoint
        self.policy: Any = None
        self._seat = Seat(observation=observation, action=action, compile_mode="off")

    def install(self, policy: Any, seat: Seat) -> None:
        """Fly with this policy, told and understood as it was trained."""
        check_seats_one(policy)
        self.policy, self._seat = policy, seat

    def prepare(self, params: CombatParams, device: torch.device | str) -> None:
        """Let the observation make its tables."""
        self._seat.prepare(params, device)

    def initial(self, key: Tensor) -> tuple[Tensor, ...]:
        """Remembers nothing."""
        return ()

    def act(
        self, params: CombatParams, state: CombatState, me: int, memory: tuple[Tensor, ...]
    ) -> tuple[Command, tuple[Tensor, ...]]:
        """The policy's command."""
        if self.policy is None:
            raise ValueError(
                f"opponent.checkpoint = {self.checkpoint} can only be the opponent of an env; expected a "
                "scripted pilot in tournaments and in the learner's seat; choose another"
            )
        with torch.no_grad():
            dist = self.policy.get_dist(self._seat.frames(params, state, me))
            return self._seat.command(dist), ()
