"""Air combat for the pilots of team 0, against pilots whom nobody trains here.

One aircraft a side: TorchRL's single-agent keys. More: the learner's aircraft are the group "agents".
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from navrl.envs.combat import specs
from navrl.envs.combat.actions import ActionKind, Order
from navrl.envs.combat.observations.base import Observation
from navrl.envs.combat.opponents.base import Command, Pilot, pilot_key
from navrl.envs.combat.scenarios import Scenario
from navrl.envs.combat.sim.advance import advance
from navrl.envs.combat.sim.params import CombatParams
from navrl.envs.combat.sim.relative import focal_index
from navrl.envs.combat.sim.state import (
    Action,
    CombatState,
    Events,
    as_asked,
    can_fire,
    decided,
    disengaged,
    opening_state,
    sides,
    timed_out,
    winner_sign,
)
from navrl.envs.core import random
from navrl.envs.core.env import BatchedEnv
from navrl.envs.core.reductions import any_row
from navrl.envs.core.rewards import Transition, WeightedReward

_RATES = ("win", "loss", "draw", "kill", "survival")  # of the learner's episodes
# An underscore: counted, not averaged.
_STATISTICS = (*_RATES, "launches", "kills", "_opponent")

Memory = tuple[Tensor, ...]  # of one pilot


class Duel(NamedTuple):
    """The fight, and what every opposing pilot remembers of it."""

    combat: CombatState
    memories: tuple[Memory, ...]


class CombatEnv(BatchedEnv):
    """One decision per second of game time: rudder, trigger, and what else the action kind has."""

    scripts = "opponent"  # the group whose options can fly in the learner's seat

    def __init__(
        self,
        *,
        name: str,
        team_size: int,
        headline: Mapping[str, str],
        objective: str,
        sim: CombatParams,
        scenario: Scenario,
        observation: Observation,
        action: ActionKind,
        opponent: Pilot,
        reward: WeightedReward,
        compile_mode: str | bool,
        num_envs: int,
        device: torch.device | str,
        seed: int,
        first_env_id: int = 0,
    ) -> None:
        specs.check_team_size(team_size, sim)
        self.name, self.headline, self.objective = name, dict(headline), objective
        self.team_size, self._params = team_size, sim.checked()
        self._scenario, self._opponent, self._reward = scenario.checked(), opponent, reward
        self._observation, self._action = observation, action
        self._team = range(team_size)  # the learner's aircraft; the opponents' come after them
        if objective not in _RATES:
            raise ValueError(
                f"env.objective = {objective!r}; expected one of {', '.join(_RATES)}; "
                "change env.objective"
            )
        observation.prepare(sim, device)
        reward.prepare(sim, device)
        scenario.to(device)
        opponent.prepare(sim, device)
        shape = (num_envs,) if team_size == 1 else (num_envs, team_size)
        super().__init__(
            num_envs=num_envs,
            device=device,
            seed=seed,
            first_env_id=first_env_id,
            compile_mode=compile_mode,
            observation_spec=specs.observation_spec(observation, action, shape, device),
            action_spec=specs.action_spec(action, shape, device),
            reward_parts=reward.names,
            statistic_names=_STATISTICS,
            rate_names=_RATES,
        )

    def initial(self, key: Tensor) -> Duel:
        """Everybody at the scenario's opening, the opponents with fresh memories."""
        combat = opening_state(self._params, self._scenario.opening(key, self.team_size))
        return Duel(combat, self._pilots_begin(self._opponent, key, self._foes))

    def outside(self) -> tuple[list[Command], tuple[Memory, ...]] | None:
        """The commands of opponents that hold networks."""
        if self._opponent.compilable:
            return None
        state: Duel = self._world.state
        return self._commands(self._opponent, state.combat, self._foes, state.memories)

    def advance(
        self,
        state: Duel,
        action: Tensor,
        given: tuple[list[Command], tuple[Memory, ...]] | None,
    ) -> tuple[Duel, Events]:
        """Opponents and learner decide from the same instant, then everybody flies."""
        commands, memories = given or self._commands(
            self._opponent, state.combat, self._foes, state.memories
        )
        actions = (action,) if self.team_size == 1 else action.unbind(1)
        orders = _joined([self._action.orders(own) for own in actions], commands)
        combat, events = advance(self._params, state.combat, orders)
        return Duel(combat, memories), events

    def observe(self, state: Duel) -> dict[str, Tensor]:
        """What every pilot of the learner is told, and which choices it has."""
        combat, params = state.combat, self._params
        ready = can_fire(params, combat)
        enemies_alive = sides(params, combat.aircraft.alive)[1]
        told = [self._observation.rows(params, combat, me) for me in self._team]
        masks = [self._action.mask(ready[me], enemies_alive) for me in self._team]
        if self.team_size == 1:
            leaves = {f"observation/{leaf}": rows for leaf, rows in told[0].items()}
            return leaves | {"action_mask": masks[0]}
        leaves = {
            f"agents/observation/{leaf}": torch.stack([rows[leaf] for rows in told])
            for leaf in self._observation.leaves
        }
        alive = sides(params, combat.aircraft.alive)[0].unsqueeze(1)
        return leaves | {"agents/action_mask": torch.stack(masks), "agents/alive": alive}

    def judge(self, state: Duel) -> tuple[Tensor, Tensor]:
        """Over when one side is dead or nobody has missiles; cut at the time limit or far apart."""
        params, combat = self._params, state.combat
        return decided(params, combat), timed_out(params, combat) | disengaged(params, combat)

    def score(
        self, before: Duel, after: Duel, events: Events, terminated: Tensor, truncated: Tensor
    ) -> tuple[Tensor, list[Tensor]]:
        """The configured reward terms."""
        return self._reward(
            Transition(self._params, before.combat, after.combat, events, terminated, truncated)
        )

    def statistics(self, state: Duel) -> list[Tensor]:
        """How it stands for the learner, as 0 or 1 (a time limit is a draw).

        Then missiles launched and enemies killed, per aircraft.
        """
        params, craft = self._params, state.combat.aircraft
        sign = winner_sign(params, state.combat, 0)
        mine, theirs = sides(params, craft.alive)
        launches = params.rounds - sides(params, craft.rounds)[0]
        rates = [sign > 0, sign < 0, sign == 0, ~any_row(theirs), any_row(mine)]
        counts = [count.float().mean(0) for count in (launches, ~theirs)]
        opponent = torch.zeros_like(sign) + self._opponent.tag(state.memories[0])  # of a whole team
        return [*(rate.float() for rate in rates), *counts, opponent]

    def pilot_action(
        self, pilot: Pilot, memories: tuple[Memory, ...] | None
    ) -> tuple[Tensor, tuple[Memory, ...]]:
        """What scripted pilots would do in the learner's seats; memories None begin an episode."""
        if memories is None:
            # Not the opponents' draws: the same pilot on both sides is two pilots.
            pilot.prepare(self._params, self.device)
            memories = self._pilots_begin(pilot, random.mix(self.episode_key() ^ 1), self._team)
        combat = self.combat_state
        commands, memories = self._commands(pilot, combat, self._team, memories)
        actions = [
            self._action.nearest(*command[:3], self._aimed_at(combat, me, command.target))
            for command, me in zip(commands, self._team, strict=True)
        ]
        return actions[0] if self.team_size == 1 else torch.stack(actions, 1), memories

    def _aimed_at(self, combat: CombatState, me: int, asked: Tensor | None) -> Tensor:
        """The living enemy that the pilot asks for, else the nearest one: the dead cannot be chosen."""
        nearest = focal_index(self._params, combat, me)
        enemies_alive = sides(self._params, combat.aircraft.alive)[1]
        return nearest if asked is None else as_asked(asked, enemies_alive, nearest)

    @property
    def _foes(self) -> range:
        return range(self.team_size, 2 * self.team_size)

    @staticmethod
    def _pilots_begin(pilot: Pilot, key: Tensor, seats: range) -> tuple[Memory, ...]:
        return tuple(pilot.initial(pilot_key(key, number)) for number in range(len(seats)))

    def _commands(
        self, pilot: Pilot, combat: CombatState, seats: range, memories: tuple[Memory, ...]
    ) -> tuple[list[Command], tuple[Memory, ...]]:
        decided_by = [
            pilot.act(self._params, combat, me, memory)
            for me, memory in zip(seats, memories, strict=True)
        ]
        return [command for command, _ in decided_by], tuple(after for _, after in decided_by)

    @property
    def combat_state(self) -> CombatState:
        """The simulator's state, for replays and tests."""
        state: Any = self._world.state
        return state.combat

    @property
    def opponent(self) -> Pilot:
        """Who flies the other side."""
        return self._opponent

    @property
    def lesson_names(self) -> dict[str, tuple[str, ...]]:
        """What `set_lesson` weighs: the names in every mixture, and the reward's terms."""
        dials: dict[str, Any] = {
            "scenarios": self._scenario,
            "opponents": self._opponent,
            "reward": self._reward,
        }
        fixed = [name for name, dial in dials.items() if not hasattr(dial, "set_weights")]
        if fixed:
            raise ValueError(
                f"a curriculum changes weights, and the env's {fixed[0]} have none; expected "
                "scenario=mixture and opponent=league; change scenario or opponent"
            )
        return {name: dial.names for name, dial in dials.items()}

    def set_lesson(
        self,
        *,
        scenarios: Mapping[str, float],
        opponents: Mapping[str, float],
        reward: Mapping[str, float],
    ) -> None:
        """Other mixtures from each env's next episode on, other reward weights at once."""
        mixtures: tuple[Any, ...] = (self._scenario, self._opponent, self._reward)
        for mixture, weights in zip(mixtures, (scenarios, opponents, reward), strict=True):
            mixture.set_weights(weights)

    @property
    def params(self) -> CombatParams:
        """The constants of the fight."""
        return self._params


def _joined(mine: list[Order], theirs: list[Command]) -> Action:
    """Orders of everybody, rows (A, N); who names no target fires at the nearest."""
    everybody: list[Order | Command] = [*mine, *theirs]
    nearest = torch.full_like(mine[0].rudder, -1, dtype=torch.int32)
    asked = [nearest if order.target is None else order.target for order in everybody]
    return Action(
        rudder=torch.stack([order.rudder for order in everybody]),
        throttle=torch.stack([order.throttle for order in everybody]),
        fire=torch.stack([order.fire for order in everybody]),
        target=torch.stack(asked),
    )
