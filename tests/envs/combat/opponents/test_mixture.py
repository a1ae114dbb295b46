"""The mixture: which pilot an episode draws, and that the others go on thinking."""

import math
from itertools import combinations

import pytest
import torch
from torch._dynamo.testing import CompileCounter

from navrl.config.compose import build, compose
from navrl.envs.combat.opponents.base import Pilot
from navrl.envs.combat.opponents.mixture import Mixture
from navrl.envs.combat.sim.state import Command
from tests.envs.combat.opponents.pictures import NAMES
from tests.envs.combat.sim.duels import opening, shipped_params
from tests.envs.conftest import configuration
from tests.envs.playing import keys

PARAMS = shipped_params()


class Counting(Pilot):
    """Commands its number as rudder, and counts its own calls in two memories."""

    def __init__(self, number):
        self.number = number

    def initial(self, key):
        return torch.zeros_like(key), torch.full_like(key, self.number)

    def act(self, params, state, me, memory):
        calls, number = memory
        rudder = torch.full(calls.shape, self.number / 10.0)
        command = Command(rudder, 1.0 - rudder, calls % 2 == self.number % 2)
        return command, (calls + self.number, number)


def crowd(count):
    """`count` fights with the enemy to the left, beyond the reach of any missile."""
    return opening(PARAMS, [(0.0, 60e3, 0.0, 300.0)] * count, [(0.0, 0.0, 0.0, 300.0)] * count)


@pytest.fixture(scope="module")
def shipped():
    """Composed as a run composes it, ready to fly."""
    mixture = build(compose("train", ["opponent=scripts"]).opponent)
    mixture.prepare(PARAMS, "cpu")
    return mixture


@pytest.mark.parametrize("opponent", ["mixture", "league"])
def test_a_team_flies_one_script_with_thresholds_of_everybodys_own(opponent):
    config = configuration(
        "env=combat", "env.team_size=4", f"opponent={opponent}", "scenario=mixture"
    )
    env = build(config.env)(num_envs=60, device="cpu", seed=0)
    observed = env.reset()["episode"][:, env.episode_keys.index("_opponent")]
    memories = env._world.state.memories
    tags = [env.opponent.tag(memory).float() for memory in memories]
    assert len(tags) == 4
    assert all(torch.equal(tag, observed) for tag in tags)
    assert len(observed.unique()) > 2
    drawn = [memory[-1] for memory in memories]  # a threshold
    assert all((one != other).float().mean() > 0.9 for one, other in combinations(drawn, 2))


def test_an_episode_keeps_its_pilot_and_the_next_one_draws_again():
    mixture = Mixture(pilots={n: Counting(i) for i, n in enumerate("ab")}, weights={"a": 1, "b": 1})
    state, first = crowd(500), mixture.initial(keys(500))
    memory = first
    for _ in range(3):
        _, memory = mixture.act(PARAMS, state, 1, memory)
        assert torch.equal(memory[0], first[0])
    assert torch.equal(mixture.initial(keys(500))[0], first[0])
    changed = (mixture.initial(keys(500, episode=1))[0] != first[0]).double().mean().item()
    assert changed == pytest.approx(0.5, abs=5.0 * math.sqrt(0.25 / 500))


def test_the_drawn_pilot_is_obeyed_and_all_memories_go_on():
    pilots = {name: Counting(number) for name, number in (("a", 3), ("b", 5), ("c", 8))}
    mixture = Mixture(pilots=pilots, weights={"a": 1, "b": 1, "c": 1})
    state, memory = crowd(300), mixture.initial(keys(300))
    number = torch.tensor([3, 5, 8])[memory[0].long()]
    for calls in range(4):
        command, memory = mixture.act(PARAMS, state, 1, memory)
        assert torch.equal(command.rudder, number / 10.0)
        assert torch.equal(command.throttle, 1.0 - number / 10.0)
        assert torch.equal(command.fire, (calls * number) % 2 == number % 2)
        counts = torch.stack(memory[1:])  # calls and number of a, then of b, then of c
        done = calls + 1
        expected = torch.tensor([3 * done, 3, 5 * done, 5, 8 * done, 8])
        assert torch.equal(counts, expected.unsqueeze(-1).expand(6, 300))


def test_a_curriculum_changes_the_weights_of_the_episodes_that_begin_from_now_on():
    pilots = {name: Counting(number) for number, name in enumerate("abc")}
    mixture = Mixture(pilots=pilots, weights={"a": 1, "b": 1, "c": 1})
    held, old = mixture.weights.tensor, mixture.initial(keys(300))
    assert mixture.tag(old).unique().tolist() == [0, 1, 2]
    mixture.set_weights({"c": 0.0, "b": 2.0, "a": 0.0})
    assert mixture.weights.tensor is held  # a compiled step reads this very tensor
    assert mixture.initial(keys(300))[0].unique().tolist() == [1]
    _, after = mixture.act(PARAMS, crowd(300), 1, old)
    assert torch.equal(after[0], old[0])
    with pytest.raises(ValueError, match=r"change opponent\.weights$"):
        mixture.set_weights({"a": 1.0})


def test_it_is_one_graph_that_outlives_a_change_of_weights(shipped):
    graphs = CompileCounter()
    state = crowd(50)

    def decision(key):
        return shipped.act(PARAMS, state, 1, shipped.initial(key))

    compiled = torch.compile(decision, backend=graphs, fullgraph=True, dynamic=False)
    for weights in (dict.fromkeys(NAMES, 1.0), dict.fromkeys(NAMES, 0.0) | {"stg_rule": 1.0}):
        shipped.set_weights(weights)
        (found, memory), (wanted, kept) = compiled(keys(50)), decision(keys(50))
        assert torch.equal(found.rudder, wanted.rudder)
        assert torch.equal(found.fire, wanted.fire)
        assert all(torch.equal(a, b) for a, b in zip(memory, kept, strict=True))
    assert memory[0].unique().tolist() == [NAMES.index("stg_rule")]
    assert graphs.frame_count == 1
