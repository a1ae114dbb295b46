"""Alice and Bob: the whole game against a scalar reference, and the chance of a random policy."""

import random as python_random

import pytest
import torch

from navrl.envs.alice_and_bob.observations import Codes, OneHot
from navrl.envs.alice_and_bob.sim import (
    GridParams,
    advance,
    initial_state,
    won,
)
from tests.envs.alice_and_bob.scalar_grid import Game
from tests.envs.playing import keys

RULES = GridParams(num_agents=2, size=8, horizon=100)


def test_openings_are_distinct_cells_and_all_equally_likely():
    state = initial_state(RULES, keys(40_000))
    cell = (state.row - 1) * 8 + state.column - 1
    assert (cell[0] != cell[1]).all()
    assert ((cell >= 0) & (cell < 64)).all()
    counts = torch.stack([row.bincount(minlength=64) for row in cell]).double()
    spread = ((counts - 625.0) ** 2 / 625.0).sum(1)  # chi squared with 63 degrees: 63 +- 11
    assert ((spread > 25.0) & (spread < 120.0)).all()
    gaps = (cell[1] - cell[0]).remainder(64).bincount(minlength=64)
    assert gaps[0] == 0
    assert gaps[1:].min() > 500  # 635 each


def test_many_agents_begin_on_cells_of_their_own():
    crowd = GridParams(num_agents=8, size=3, horizon=10).checked()
    state = initial_state(crowd, keys(200))
    cells = (state.row * 5 + state.column).t().tolist()
    assert all(len(set(row)) == 8 for row in cells)


def test_the_game_equals_a_scalar_one_over_a_thousand_episodes():
    games, size = 1000, 3  # small, so that many are won
    rules = GridParams(num_agents=2, size=size, horizon=40)
    state = initial_state(rules, keys(games, seed=3))
    dice = python_random.Random(0)
    codes = Codes()
    codes.prepare(rules, "cpu")
    twins = [
        Game(*zip(state.row[:, i].tolist(), state.column[:, i].tolist(), strict=True), size, 40)
        for i in range(games)
    ]
    finished, wins = [False] * games, 0
    for _ in range(40):
        actions = [[dice.randrange(5) for _ in range(2)] for _ in range(games)]
        state, events = advance(rules, state, torch.tensor(actions).t())
        plan = codes.state_rows(rules, state).t().tolist()
        views = [codes.rows(rules, state, me)["view"].t().tolist() for me in (0, 1)]
        gained, over = events.gained.t().tolist(), won(state).tolist()
        for i, game in enumerate(twins):
            if finished[i]:
                continue
            before = list(game.collected)
            reward, terminated, _ = game.step(actions[i])
            assert plan[i] == game.state()
            assert gained[i] == [b != a for a, b in zip(before, game.collected, strict=True)]
            assert [views[0][i], views[1][i]] == [game.observation(0), game.observation(1)]
            assert over[i] == terminated == (reward == 1.0)
            finished[i] = terminated
            wins += terminated
    assert wins > 100
    assert wins < games


@torch.no_grad()
def test_chance_collects_a_diamond_in_one_of_forty_episodes():
    episodes = 40_960
    state = initial_state(RULES, keys(episodes, seed=1))
    generator = torch.Generator().manual_seed(0)
    for _ in range(100):
        moves = torch.randint(5, (2, episodes), generator=generator)
        state, _ = advance(RULES, state, moves)
    rates = state.collected.float().mean(1)
    assert ((rates - 0.024).abs() < 0.003).all()
    assert won(state).float().mean() < 5e-4


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"num_agents": 1},
            r"env\.sim\.num_agents = 1; expected a whole number from 2 to 8; change env\.sim\.num_agents",
        ),
        ({"num_agents": 9}, r"env\.sim\.num_agents = 9;"),
        ({"num_agents": 5, "size": 2}, r"env\.sim\.size = 2; expected a whole number from 3"),
        ({"size": 1}, r"env\.sim\.size = 1;"),
        ({"horizon": 0}, r"env\.sim\.horizon = 0; expected a whole number from 1"),
        ({"horizon": 2.5}, r"env\.sim\.horizon = 2\.5;"),
    ],
)
def test_rules_that_make_no_game_are_refused(change, sentence):
    with pytest.raises(ValueError, match=sentence) as refused:
        RULES._replace(**change).checked()
    assert "\n" not in str(refused.value)


def test_flags_equal_the_codes():
    codes, flags = Codes(), OneHot()
    state = initial_state(RULES, keys(50))
    for kind in (codes, flags):
        kind.prepare(RULES, "cpu")
    assert (flags.leaves, flags.state_size) == ({"view": (8 * 9 + 2,)}, 800)
    view, critic = flags.rows(RULES, state, 0)["view"], flags.state_rows(RULES, state)
    plain = codes.rows(RULES, state, 0)["view"]
    assert torch.equal(view[:72].view(9, 8, 50).argmax(1).float(), plain[:9])
    assert torch.equal(view[72:], plain[9:])
    assert torch.equal(critic.view(100, 8, 50).argmax(1).float(), codes.state_rows(RULES, state))
    assert (critic.view(100, 8, 50).sum(1) == 1.0).all()
