"""The env of air combat: the learner flies the aircraft of team 0, an opponent those of team 1.

With one aircraft a side the keys are TorchRL's for a single agent. With more, the learner's aircraft are the
group "agents".
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, Unpack

import torch
from torch import Tensor

from navrl.config.checks import require, require_choice, require_whole
from navrl.envs.combat.actions import ActionKind
from navrl.envs.combat.observations.base import Observation
from navrl.envs.combat.opponents.base import Memory, Pilot, pilot_key
from navrl.envs.combat.opponents.league import League
from navrl.envs.combat.scenarios import Scenario
from navrl.envs.combat.sim.advance import advance
from navrl.envs.combat.sim.geometry import focal_index
from navrl.envs.combat.sim.params import MAX_TEAM_SIZE, CombatParams
from navrl.envs.combat.sim.state import (
    CombatState,
    Command,
    Events,
    can_fire,
    decided,
    disengaged,
    initial_state,
    joint_action,
    requested_or,
    sides,
    timed_out,
    winner_sign,
)
from navrl.envs.core import random
from navrl.envs.core.env import BatchedEnv, EnvOptions
from navrl.envs.core.reductions import any_row
from navrl.envs.core.rewards import Transition, WeightedReward

REWARD_SPLITS = ("team", "per_agent")


class Duel(NamedTuple):
    """The fight, and the memory of every opposing pilot."""

    combat: CombatState
    memories: tuple[Memory, ...]


class CombatEnv(BatchedEnv):
    """Planar mid-range air combat, one decision per second of game time."""

    params: CombatParams
    _observation: Observation
    action: ActionKind
    rate_names = ("win", "loss", "draw", "kill", "survival")  # of the learner's episodes
    # An underscore: counted, not averaged.
    statistic_names = (*rate_names, "launches", "kills", "_opponent")
    scripted_group = "opponent"  # the group of options that can act in the learner's place

    def __init__(
        self,
        *,
        team_size: int,
        sim: CombatParams,
        scenario: Scenario,
        observation: Observation,
        action: ActionKind,
        opponent: Pilot,
        reward: WeightedReward,
        reward_split: str = "team",  # configurations of older checkpoints lack it
        **options: Unpack[EnvOptions],
    ) -> None:
        require_whole("env.team_size", team_size, 1, MAX_TEAM_SIZE)
        require_choice("env.reward_split", reward_split, REWARD_SPLITS)
        expected = f"{team_size}, which it takes from env.team_size"
        require(sim.team_size == team_size, "env.sim.team_size", sim.team_size, expected)
        self.team_size, self.action = team_size, action
        self._scenario, self.opponent = scenario.checked(), opponent
        self._team = range(team_size)  # the learner's aircraft; the opponents' come after them
        self.has_own_rewards = team_size > 1 and reward_split == "per_agent"
        scenario.to(options["device"])
        opponent.prepare(sim.checked(), options["device"])
        super().__init__(sim=sim, observation=observation, reward=reward, **options)

    def initial(self, key: Tensor) -> Duel:
        """Return the scenario's opening, with fresh memories of the opponents."""
        combat = initial_state(self.params, self._scenario.opening(key, self.team_size))
        return Duel(combat, self._pilots_begin(self.opponent, key, self._foes))

    def outside(self) -> tuple[list[Command], tuple[Memory, ...]] | None:
        """Return the commands of opponents that hold networks."""
        if self.opponent.compilable:
            return None
        state: Duel = self._world.state
        return self._commands(self.opponent, state.combat, self._foes, state.memories)

    def advance_given(
        self, state: Duel, action: Tensor, given: tuple[list[Command], tuple[Memory, ...]] | None
    ) -> tuple[Duel, Events]:
        """Let opponents and learner decide from the same instant, then everybody flies."""
        commands, memories = given or self._commands(
            self.opponent, state.combat, self._foes, state.memories
        )
        actions = (action,) if self.team_size == 1 else action.unbind()
        commands = [*(self.action.command(own.t()) for own in actions), *commands]
        combat, events = advance(self.params, state.combat, joint_action(commands))
        return Duel(combat, memories), events

    def observe(self, state: Duel) -> dict[str, Tensor]:
        """Return the observation and the allowed choices of every aircraft of the learner."""
        combat, params = state.combat, self.params
        ready = can_fire(params, combat)
        enemies_alive = sides(params, combat.aircraft.alive)[1]
        observed = [self._observation.rows(params, combat, me) for me in self._team]
        masks = [self.action.mask(ready[me], enemies_alive) for me in self._team]
        if self.team_size == 1:
            leaves = {f"observation/{leaf}": rows for leaf, rows in observed[0].items()}
            return leaves | {"action_mask": masks[0]}
        leaves = {
            f"agents/observation/{leaf}": torch.stack([rows[leaf] for rows in observed])
            for leaf in self._observation.leaves
        }
        alive = sides(params, combat.aircraft.alive)[0].unsqueeze(1)
        return leaves | {"agents/action_mask": torch.stack(masks), "agents/alive": alive}

    def judge(self, state: Duel) -> tuple[Tensor, Tensor]:
        """Terminate when one side is dead or out of missiles; truncate at the time limit or far apart."""
        params, combat = self.params, state.combat
        return decided(params, combat), timed_out(params, combat) | disengaged(params, combat)

    def score(self, transition: Transition) -> tuple[Tensor, list[Tensor]]:
        """Return the configured terms, which read the fight without the opponents' memories."""
        before, after = transition.before.combat, transition.after.combat
        return self._reward(transition._replace(before=before, after=after))

    def own_rewards(self, transition: Transition) -> Tensor | None:
        """Return every aircraft's reward: its own events and potentials, and the outcome for the team."""
        if not self.has_own_rewards:
            return None
        return torch.stack([self.score(transition._replace(agent=me))[0] for me in self._team])

    def statistics(self, state: Duel) -> list[Tensor]:
        """Return the learner's result as rates (a time limit is a draw), and its launches and kills."""
        params, craft = self.params, state.combat.aircraft
        sign = winner_sign(params, state.combat, 0)
        mine, theirs = sides(params, craft.alive)
        launches = params.rounds - sides(params, craft.rounds)[0]
        rates = [sign > 0, sign < 0, sign == 0, ~any_row(theirs), any_row(mine)]
        counts = [count.float().mean(0) for count in (launches, ~theirs)]
        opponent = torch.zeros_like(sign) + self.opponent.tag(state.memories[0])  # of a whole team
        return [*(rate.float() for rate in rates), *counts, opponent]

    def pilot_action(
        self, pilot: Pilot, memories: tuple[Memory, ...] | None
    ) -> tuple[Tensor, tuple[Memory, ...]]:
        """Return the actions of scripted pilots in the learner's place; memories None begin an episode."""
        if memories is None:
            # Not the opponents' draws: the same pilot on both sides is two pilots.
            pilot.prepare(self.params, self.device)
            memories = self._pilots_begin(pilot, random.mix(self.episode_key() ^ 1), self._team)
        combat = self.combat_state
        commands, memories = self._commands(pilot, combat, self._team, memories)
        actions = [
            self.action.nearest(*command[:3], self.aimed_at(combat, me, command.target))
            for command, me in zip(commands, self._team, strict=True)
        ]
        return actions[0] if self.team_size == 1 else torch.stack(actions, 1), memories

    def aimed_at(self, combat: CombatState, me: int, requested: Tensor | None) -> Tensor:
        """Return the requested enemy if it lives, else the nearest one: the dead cannot be chosen."""
        nearest = focal_index(self.params, combat, me)
        enemies_alive = sides(self.params, combat.aircraft.alive)[1]
        return nearest if requested is None else requested_or(requested, enemies_alive, nearest)

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
            pilot.act(self.params, combat, me, memory)
            for me, memory in zip(seats, memories, strict=True)
        ]
        return [command for command, _ in decided_by], tuple(after for _, after in decided_by)

    @property
    def combat_state(self) -> CombatState:
        """Return the simulator's state, for replays and tests."""
        state: Any = self._world.state
        return state.combat

    @property
    def curriculum_advice(self) -> str:
        """Return a warning about a league that no curriculum fills, or nothing."""
        if not isinstance(self.opponent, League):
            return ""
        return (
            "opponent=league with curriculum=none: no policy is in the league, so the scripts fly in every "
            "episode; choose curriculum=league, or opponent=scripts"
        )

    @property
    def lesson_names(self) -> dict[str, tuple[str, ...]]:
        """Return the names that `set_lesson` weighs: in every mixture, and the reward's terms."""
        mixtures: dict[str, Any] = {
            "scenarios": self._scenario,
            "opponents": self.opponent,
            "reward": self._reward,
        }
        fixed = [name for name, mixture in mixtures.items() if not hasattr(mixture, "set_weights")]
        if fixed:
            raise ValueError(
                f"a curriculum changes weights, and the env's {fixed[0]} have none; expected "
                "scenario=mixture and opponent=league; change scenario or opponent"
            )
        return {name: mixture.names for name, mixture in mixtures.items()}

    def set_lesson(
        self,
        *,
        scenarios: Mapping[str, float],
        opponents: Mapping[str, float],
        reward: Mapping[str, float],
    ) -> None:
        """Apply new mixtures from each env's next episode on, and new reward weights at once."""
        mixtures: tuple[Any, ...] = (self._scenario, self.opponent, self._reward)
        for mixture, weights in zip(mixtures, (scenarios, opponents, reward), strict=True):
            mixture.set_weights(weights)
