"""The simulators of teams trace into one graph that computes the same bits, and one game is row 0 of many."""

import pytest
import torch
from torch.utils import _pytree as pytree

from navrl.envs.alice_and_bob import sim as grid
from navrl.envs.coverage.sim import advance as coverage
from tests.envs.coverage.sim.layouts import params_of
from tests.envs.playing import keys

WALKING = ("env.sim.user_speed_mps=30", "env.sim.users=cluster")
SHADOWED = ("env.sim.radio.channel=3gpp", "env.sim.radio.shadowing=per_episode")
FEW = ("env.sim.num_users=7", "env.sim.radio.max_users=2")


def played(simulator, params, actions, count, traced=False):
    """The last of some states, of an opening and then these actions (steps, ..., N)."""
    opening, advance = simulator.initial_state, simulator.advance
    if traced:
        options = {"backend": "eager", "fullgraph": True, "dynamic": False}
        opening, advance = (torch.compile(f, **options) for f in (opening, advance))
    state = opening(params, keys(count))
    for action in actions:
        found = advance(params, state, action[..., :count])
        state = found if simulator is coverage else found[0]
    return state


def case(name):
    generator = torch.Generator().manual_seed(0)
    if name == "grid":
        rules = grid.GridParams(num_agents=3, size=3, horizon=10)
        return grid, rules, torch.randint(5, (6, 3, 37), generator=generator)
    overrides = {
        "coverage": (*FEW, *WALKING, *SHADOWED),
        "coverage_relay": (*FEW, "env.sim.radio.min_sinr_db=-4", "env.sim.users=hotspot"),
    }[name]
    return (
        coverage,
        params_of(name, *overrides),
        torch.rand(6, 3, 5, 37, generator=generator) * 2 - 1,
    )


@pytest.mark.parametrize("name", ["grid", "coverage", "coverage_relay"])
def test_it_traces_into_one_graph(name):
    simulator, params, actions = case(name)
    one, two = (
        played(simulator, params, actions[:3], 37, traced=traced) for traced in (False, True)
    )
    for mine, other in zip(pytree.tree_leaves(one), pytree.tree_leaves(two), strict=True):
        assert torch.equal(mine, other)
