"""East and west are alike in Alice and Bob, with the diamonds exchanged, and agents have no numbers."""

import torch

from navrl.envs.alice_and_bob.sim import GridParams, advance, everything, initial_state, window, won
from tests.envs.playing import keys

PARAMS = GridParams(num_agents=3, size=4, horizon=200)
GAMES, STEPS = 256, 120
WESTWARD = torch.tensor([1, 0, 2, 3, 4])  # east for west
# Codes of three agents, two buttons and two diamonds: exchanged are the last four.
CODES = torch.tensor([0, 1, 2, 3, 4, 6, 5, 8, 7])


def reflected(state):
    columns, flags = PARAMS.size + 1 - state.column, state.collected.flip(0)
    return state._replace(column=columns, collected=flags)


def test_a_reflected_game_is_the_same_game():
    state = initial_state(PARAMS, keys(GAMES))
    mirror, draw = reflected(state), torch.Generator().manual_seed(0)
    for _ in range(STEPS):
        action = torch.randint(0, 5, (3, GAMES), generator=draw)
        state, events = advance(PARAMS, state, action)
        mirror, others = advance(PARAMS, mirror, WESTWARD[action])
        for found, expected in zip(mirror, reflected(state), strict=True):
            assert torch.equal(found, expected)
        assert torch.equal(others.gained, events.gained.flip(0))
        for me in range(3):
            seen = CODES[window(PARAMS, state, me).long()].view(3, 3, GAMES).flip(1)
            assert torch.equal(window(PARAMS, mirror, me), seen.flatten(0, 1).int())
    assert 5 < won(state).sum() < GAMES
    side = PARAMS.size + 2
    seen = CODES[everything(PARAMS, state).long()].view(side, side, GAMES).flip(1)
    assert torch.equal(everything(PARAMS, mirror), seen.flatten(0, 1).int())


def test_whoever_does_it_the_same_is_collected():
    state, order = initial_state(PARAMS, keys(GAMES, seed=1)), [2, 0, 1]
    other = state._replace(row=state.row[order], column=state.column[order])
    draw = torch.Generator().manual_seed(1)
    for _ in range(STEPS):
        action = torch.randint(0, 5, (3, GAMES), generator=draw)
        state, _ = advance(PARAMS, state, action)
        other, _ = advance(PARAMS, other, action[order])
        assert torch.equal(other.collected, state.collected)
        assert torch.equal(other.row, state.row[order])
        assert torch.equal(other.column, state.column[order])
