"""Air combat for one learner: aircraft 0 against a scripted opponent in aircraft 1."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torchrl.data import MultiCategorical, Unbounded

from navrl.compiled import Compiled
from navrl.envs.base import BatchedEnv
from navrl.envs.ego import EGO_SIZE, ego_rows
from navrl.opponents.base import Pilot
from navrl.rewards.base import Transition, WeightedReward
from navrl.sims import random
from navrl.sims.combat import Bodies, begin, end, tick
from navrl.sims.combat_state import (
    Action,
    CombatParams,
    CombatState,
    Events,
    can_fire,
    decided,
    elapsed_s,
    opening_state,
    winner_sign,
)
from navrl.sims.scenarios import MidRandom

_LEARNER, _OPPONENT = 0, 1
_RUDDER_CHOICES, _FIRE_CHOICES = 3, 2  # right, straight, left; hold, fire
_RATES = ("win", "loss", "draw")  # of the learner's episodes
_STATISTICS = (*_RATES, "launches")
_RUDDER_EDGE = 0.3  # a scripted rudder beyond it is a full one
# Ticks per compiled graph: compile time grows with them, call overhead shrinks.
_MAX_TICKS_PER_GRAPH = 2


class Duel(NamedTuple):
    """The fight, and what the opponent remembers of it."""

    combat: CombatState
    memory: tuple[Tensor, ...]


class CombatEnv(BatchedEnv):
    """One decision per second of game time: rudder and trigger."""

    def __init__(
        self,
        *,
        name: str,
        headline: Mapping[str, str],
        objective: str,
        sim: CombatParams,
        scenario: MidRandom,
        opponent: Pilot,
        reward: WeightedReward,
        compile_mode: str | bool,
        num_envs: int,
        device: torch.device | str,
        seed: int,
        first_env_id: int = 0,
    ) -> None:
        self.name, self.headline, self.objective = name, dict(headline), objective
        self._params, self._scenario = sim.checked(), scenario.checked()
        self._opponent, self._reward = opponent, reward
        if objective not in _RATES:
            raise ValueError(
                f"env.objective = {objective!r}; expected one of {', '.join(_RATES)}; "
                "change env.objective"
            )
        if len(sim.teams) != 2:
            raise ValueError(
                f"env.sim.teams = {list(sim.teams)}; expected one aircraft on each of two sides; "
                "change env.sim.teams"
            )
        super().__init__(
            num_envs=num_envs,
            device=device,
            seed=seed,
            first_env_id=first_env_id,
            compile_mode=compile_mode,
            observation_spec={"ego": Unbounded((num_envs, EGO_SIZE), device=device)},
            action_spec=MultiCategorical(
                [_RUDDER_CHOICES, _FIRE_CHOICES], shape=(num_envs, 2), device=device
            ),
            mask_size=_RUDDER_CHOICES + _FIRE_CHOICES,
            reward_parts=reward.names,
            statistic_names=_STATISTICS,
            rate_names=_RATES,
        )
        ticks = sim.ticks
        per_graph = max(n for n in range(1, _MAX_TICKS_PER_GRAPH + 1) if ticks % n == 0)
        self._rounds_of_ticks = ticks // per_graph
        self._ticks_per_graph = per_graph
        self._begin = Compiled(self._begin_eager, compile_mode)
        self._fly = Compiled(self._fly_eager, compile_mode)
        self._end = Compiled(self._end_eager, compile_mode)

    def initial(self, key: Tensor) -> Duel:
        """Both at the scenario's opening, the opponent with a fresh memory."""
        combat = opening_state(self._params, self._scenario.opening(key))
        return Duel(combat, self._opponent.initial(key))

    def advance(self, state: Duel, action: Tensor) -> tuple[Duel, Events]:
        """Opponent and learner decide from the same instant, then everybody flies."""
        bodies, memory = self._begin(state, action)
        for _ in range(self._rounds_of_ticks):
            bodies = self._fly(bodies)
        return self._end(state, bodies, memory)

    def _begin_eager(self, state: Duel, action: Tensor) -> tuple[Bodies, tuple[Tensor, ...]]:
        command, memory = self._opponent.act(self._params, state.combat, _OPPONENT, state.memory)
        rudder = (action[:, 0] - 1).to(torch.float32)
        orders = Action(
            rudder=torch.stack([rudder, command.rudder]),
            throttle=torch.stack([torch.ones_like(rudder), command.throttle]),
            fire=torch.stack([action[:, 1] == 1, command.fire]),
        )
        return begin(self._params, state.combat, orders), memory

    def _fly_eager(self, bodies: Bodies) -> Bodies:
        for _ in range(self._ticks_per_graph):
            bodies = tick(self._params, bodies)
        return bodies

    def _end_eager(
        self, state: Duel, bodies: Bodies, memory: tuple[Tensor, ...]
    ) -> tuple[Duel, Events]:
        combat, events = end(self._params, state.combat, bodies)
        return Duel(combat, memory), events

    def observe(self, state: Duel) -> tuple[dict[str, list[Tensor]], Tensor]:
        """The learner's ego-centric picture, and which triggers may be pulled."""
        ready = can_fire(self._params, state.combat)[_LEARNER]
        always = torch.ones_like(ready)
        mask = torch.stack([*([always] * (_RUDDER_CHOICES + 1)), ready])
        return {"ego": ego_rows(self._params, state.combat, _LEARNER)}, mask

    def judge(self, state: Duel) -> tuple[Tensor, Tensor]:
        """Over when one side is dead or nobody has missiles; cut at the time limit."""
        late = elapsed_s(self._params, state.combat) >= self._params.time_limit_s
        return decided(self._params, state.combat), late

    def score(
        self, before: Duel, after: Duel, events: Events, terminated: Tensor
    ) -> tuple[Tensor, list[Tensor]]:
        """The configured reward terms."""
        return self._reward(
            Transition(self._params, before.combat, after.combat, events, terminated)
        )

    def statistics(self, state: Duel) -> list[Tensor]:
        """Win, loss, draw (a time limit is a draw) and missiles launched, as 0 or 1 and counts."""
        sign = winner_sign(self._params, state.combat, self._params.teams[_LEARNER])
        launches = self._params.rounds - state.combat.aircraft.rounds[_LEARNER]
        return [(sign > 0).float(), (sign < 0).float(), (sign == 0).float(), launches.float()]

    def pilot_action(
        self, pilot: Pilot, memory: tuple[Tensor, ...] | None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """What a scripted pilot would do in the learner's seat; memory None begins an episode."""
        if memory is None:
            memory = pilot.initial(random.mix(self.episode_key() ^ 1))  # not the opponent's draw
        command, memory = pilot.act(self._params, self.combat_state, _LEARNER, memory)
        rudder = (
            1 + (command.rudder > _RUDDER_EDGE).long() - (command.rudder < -_RUDDER_EDGE).long()
        )
        return torch.stack([rudder, command.fire.long()], dim=-1), memory

    @property
    def combat_state(self) -> CombatState:
        """The simulator's state, for replays and tests."""
        state: Any = self._started().state
        return state.combat
