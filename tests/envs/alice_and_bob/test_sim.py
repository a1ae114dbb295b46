"""Alice and Bob: the rules by hand, the whole game against a scalar reference, and how hard it is."""

import random as python_random

import pytest
import torch

from navrl.envs.alice_and_bob.observations import Codes, OneHot
from navrl.envs.alice_and_bob.sim import (
    GridParams,
    GridState,
    advance,
    codes_at,
    everything,
    initial_state,
    window,
    won,
)
from navrl.envs.core import random
from tests.envs.alice_and_bob.scalar_grid import Game

RULES = GridParams(num_agents=2, size=8, horizon=100)
EAST, WEST, NORTH, SOUTH, STAY = range(5)


def at(*places, collected=(False, False), step=0):
    """One game with its agents at these (row, column)."""
    row, column = (
        torch.tensor([list(part)], dtype=torch.int32).t() for part in zip(*places, strict=True)
    )
    flags = torch.tensor([list(collected)]).t()
    return GridState(row, column, flags, torch.tensor([step], dtype=torch.int32))


def after(state, *actions):
    return advance(RULES, state, torch.tensor([list(actions)]).t())


def places(state):
    return [*zip(state.row[:, 0].tolist(), state.column[:, 0].tolist(), strict=True)]


def keys(count, seed=0):
    return random.episode_key(torch.tensor(seed), torch.arange(count), torch.zeros(count).long())


@pytest.mark.parametrize(
    ("action", "expected"),
    [(EAST, (4, 6)), (WEST, (4, 4)), (NORTH, (3, 5)), (SOUTH, (5, 5)), (STAY, (4, 5))],
)
def test_an_action_is_a_step(action, expected):
    state, _ = after(at((4, 5), (7, 7)), action, STAY)
    assert places(state) == [expected, (7, 7)]


def test_agents_do_not_collide():
    state, _ = after(at((4, 4), (4, 6)), EAST, WEST)
    assert places(state) == [(4, 5), (4, 5)]


@pytest.mark.parametrize(
    ("alice", "bob", "collected"),
    [
        ((1, 8), (8, 1), [True, False]),
        ((8, 1), (1, 8), [True, False]),
        ((1, 1), (8, 8), [False, True]),
        ((8, 8), (1, 1), [False, True]),
        ((1, 1), (8, 1), [False, False]),  # the other one's button
        ((1, 8), (8, 8), [False, False]),
        ((1, 8), (4, 4), [False, False]),
        ((4, 4), (8, 1), [False, False]),
    ],
)
def test_a_diamond_needs_a_mate_on_its_own_button(alice, bob, collected):
    state, events = after(at(alice, bob), STAY, STAY)
    assert state.collected[:, 0].tolist() == collected
    assert events.gained[:, 0].tolist() == collected


def test_what_is_collected_stays_collected_and_is_gained_once():
    state, _ = after(at((1, 8), (8, 1)), STAY, STAY)
    state, events = after(state, STAY, STAY)
    assert not events.gained.any()
    for _ in range(5):
        state, _ = after(state, WEST, NORTH)
    assert state.collected[:, 0].tolist() == [True, False]
    assert not won(state).any()
    whole, _ = after(at((1, 1), (8, 8), collected=(True, False)), STAY, STAY)
    assert won(whole).all()


def test_the_plan_by_hand():
    codes = everything(RULES, at((4, 5), (4, 5))).view(10, 10)
    expected = torch.ones(10, 10, dtype=torch.int32)
    expected[1:9, 1:9] = 0
    expected[1, 8], expected[1, 1], expected[8, 1], expected[8, 8] = 4, 5, 6, 7
    expected[4, 5] = 3  # Bob is on top
    assert torch.equal(codes, expected)
    hidden = everything(RULES, at((1, 8), (8, 8), collected=(True, True))).view(10, 10)
    assert (hidden[1, 8], hidden[8, 8], hidden[8, 1]) == (2, 3, 0)


def test_the_window_by_hand():
    seen = window(RULES, at((1, 1), (2, 2)), 0)[:, 0].tolist()
    assert seen == [1, 1, 1, 1, 2, 0, 1, 0, 3]
    assert codes_at(RULES, at((1, 1), (2, 2)), *torch.full((2, 1, 1), 8)).item() == 7


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
    twins = [
        Game(*zip(state.row[:, i].tolist(), state.column[:, i].tolist(), strict=True), size, 40)
        for i in range(games)
    ]
    finished, wins = [False] * games, 0
    for _ in range(40):
        actions = [[dice.randrange(5) for _ in range(2)] for _ in range(games)]
        state, _ = advance(rules, state, torch.tensor(actions).t())
        plan = everything(rules, state).t().tolist()
        views = [
            torch.cat([window(rules, state, me), state.row[me : me + 1], state.column[me : me + 1]])
            .t()
            .tolist()
            for me in (0, 1)
        ]
        over = won(state).tolist()
        for i, game in enumerate(twins):
            if finished[i]:
                continue
            reward, terminated, _ = game.step(actions[i])
            assert plan[i] == game.state()
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


def test_codes_are_eleven_numbers_and_a_hundred():
    kind = Codes()
    kind.prepare(RULES, "cpu")
    assert (kind.leaves, kind.state_size) == ({"view": (11,)}, 100)
    state = initial_state(RULES, keys(50))
    view = kind.rows(RULES, state, 1)["view"]
    assert view.dtype == torch.float32
    assert (view[4] == 3.0).all()  # Bob sees himself in the middle
    assert torch.equal(view[9:], torch.stack([state.row[1], state.column[1]]).float())
    assert (kind.state_rows(RULES, state) == 1.0).sum(0).tolist() == [36] * 50


def test_flags_say_what_the_codes_say():
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
