"""Self-play: which games are counted, for whom, and what Elo makes of them."""

import pytest
import torch

from navrl.selfplay.league import LEARNER, SelfPlay
from tests.curriculum.league_env import SCRIPTS, make_agent, make_env
from tests.envs.playing import play, random_actions, stacked
from tests.selfplay.fakes import OPTIONS, FakeEnv, N, league


def test_a_rollout_is_one_result_for_elo_against_each_opponent():
    found, env = league(elo_k=10.0)
    metrics = found.after(0, env.rollout([None] * N))
    assert metrics == {"league/elo": 1000.0, "league/snapshots": 1.0}
    games = [(0, 1)] * 3 + [(0, 0)] + [(1, 0.5)] * 2 + [None] * 10
    metrics = found.after(10, env.rollout(games))
    learner = 1000.0 + 10.0 * (0.75 - 0.5)
    # then b, from whom the better one of two equals loses a little by a draw
    learner += 10.0 * (0.5 - 1.0 / (1.0 + 10.0 ** ((1000.0 - learner) / 400.0)))
    assert metrics["league/elo"] == pytest.approx(learner)
    assert found.elo.ratings["a"] == pytest.approx(997.5)


def test_win_rates_are_of_those_who_were_met():
    found, env = league(FakeEnv(scripts=("a", "b", "never")))
    found.after(0, env.rollout([None] * N))
    metrics = found.after(10, env.rollout([(0, 1), (0, 1), (1, 0)] + [None] * 13))
    # two imagined draws each: a (2 + 1) / 4, b (0 + 1) / 3; nothing is known of the snapshot
    assert metrics["league/score_scripts"] == pytest.approx((0.75 + 1 / 3) / 2)
    assert "league/score_pool" not in metrics


def slow_count(holders, chosen, rollouts, keys):
    """Games by opponent: only of episodes whose seat had one holder from their opening to the end.

    The next episode opens in the step that ends the last one, so before the seats of the next step.
    """
    tally = {}
    num_envs = len(holders[0])
    for env in range(num_envs):
        held = []
        for step, frame in enumerate(rollouts):
            held.append(holders[step][env])
            if not frame["next", "done"][env].item():
                continue
            if len(set(held)) == 1:
                name = held[0] or SCRIPTS[chosen[step][env]]
                row = dict(zip(keys, frame["next", "episode"][env].tolist(), strict=True))
                wins = tally.setdefault(name, [0, 0, 0])
                for place, outcome in enumerate(("win", "draw", "loss")):
                    wins[place] += int(row[outcome])
            held = [holders[step][env]]
    return {name: tuple(counts) for name, counts in tally.items()}


def test_counts_equal_a_slow_count_over_recorded_rollouts():
    """Seats change after every rollout of four steps, sometimes back to whom they had before."""
    env = make_env(24)
    options = OPTIONS | {"snapshot_every": 3, "redraw_every": 1, "pool_size": 20}
    found, total = SelfPlay(**options), {}
    found.attach(env, make_agent(env))
    record = found.payoff.record

    def listening(row, column, *counts):
        if row == LEARNER:
            old = total.get(column, (0, 0, 0))
            total[column] = tuple(sum(pair) for pair in zip(old, counts, strict=True))
        record(row, column, *counts)

    found.payoff.record = listening
    holders, chosen, frames = [], [], []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        found.play(on=True)
        root = env.reset()
        for iteration in range(1, 31):
            seats = [None] * 24
            for block in env.opponent.blocks:
                name = f"snapshot{block.tag - 1000:03d}"
                seats[block.start : block.stop] = [name] * (block.stop - block.start)
            played = []
            for action in random_actions(env, 4, seed=iteration):
                holders.append(seats)
                chosen.append(env._world.state.memories[0][1].tolist())
                played += play(env, [action], root)
                root = played[-1][1]
            frames += [frame for frame, _ in played]
            found.after(iteration, stacked(played))
    expected = slow_count(holders, chosen, frames, env.episode_keys)
    assert total == expected
    ended = sum(int(frame["next", "done"].sum()) for frame in frames)
    assert 0 < sum(map(sum, expected.values())) < ended, "some episodes met two opponents"
    assert {*SCRIPTS, "snapshot000", "snapshot001", "snapshot002"} <= set(total)
    assert sum(counts[0] for counts in total.values()) > 0, "somebody won"
