"""Matches: two pilots fight on the simulator alone, without env, discrete actions or learner."""

from typing import TypeVar

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from navrl.envs.combat.opponents.base import Pilot, pilot_key
from navrl.envs.combat.scenarios import Scenario
from navrl.envs.combat.sim.advance import advance
from navrl.envs.combat.sim.state import (
    CombatParams,
    CombatState,
    decided,
    disengaged,
    elapsed_s,
    initial_state,
    joint_action,
    sides,
    timed_out,
    winner_sign,
)
from navrl.envs.core import random

Tree = TypeVar("Tree")


@torch.no_grad()
def play(
    params: CombatParams, scenario: Scenario, pilots: tuple[Pilot, Pilot], key: Tensor
) -> Tensor:
    """Play one episode for every key; return winner (1, 0, -1), launches of each side, seconds: (4, N).

    In any order. Eager, because finished fights leave the batch: two thirds of them end in the first third of
    the time.
    """
    seats = [pilots[team] for team in params.teams]
    state = initial_state(params, scenario.opening(key, params.team_size))
    own = [random.mix(key ^ (1 + team)) for team in range(2)]
    memories = [
        pilot.initial(pilot_key(own[team], number % params.team_size))
        for number, (pilot, team) in enumerate(zip(seats, params.teams, strict=True))
    ]
    ends = []
    while state.decision.numel():
        commands = []
        for me, pilot in enumerate(seats):
            command, memories[me] = pilot.act(params, state, me, memories[me])
            commands.append(command)
        state, _ = advance(params, state, joint_action(commands))
        over = decided(params, state) | disengaged(params, state) | timed_out(params, state)
        ended, going = over.nonzero().squeeze(-1), (~over).nonzero().squeeze(-1)
        if ended.numel():
            ends.append(_ends(params, _rows(state, ended)))
            state, memories = _rows(state, going), _rows(memories, going)
    return torch.cat(ends, 1)


def play_both_ways(
    params: CombatParams, scenario: Scenario, pilots: tuple[Pilot, Pilot], key: Tensor
) -> Tensor:
    """Play with the seats exchanged in every other episode; return the results of the first pilot.

    Scenarios need not be fair: in `rear` the second seat begins behind the first.
    """
    there = play(params, scenario, pilots, key[0::2])
    winner, first, second, length_s = play(params, scenario, pilots[::-1], key[1::2])
    return torch.cat([there, torch.stack([-winner, second, first, length_s])], 1)


def _ends(params: CombatParams, state: CombatState) -> Tensor:
    launches = sides(params, (params.rounds - state.aircraft.rounds).float())
    sign = winner_sign(params, state, 0)
    return torch.stack([sign, *(side.sum(0) for side in launches), elapsed_s(params, state)])


def _rows(tree: Tree, rows: Tensor) -> Tree:
    """Return the envs `rows` of tensors whose last axis is the env."""
    return pytree.tree_map(lambda field: field.index_select(-1, rows), tree)
