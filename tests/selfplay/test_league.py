"""Self-play: who is kept, who inherits what, and who sits where."""

import math
from collections import Counter
from pathlib import Path

import pytest
import torch

from navrl.selfplay.league import LEARNER, pfsp_weights
from tests.envs.combat.sim.duels import read_yaml
from tests.selfplay.fakes import FakeEnv, N, games_of, league, tag


def test_the_shipped_shares_are_those_that_the_document_tells():
    pool = read_yaml("curriculum/self_play/pool.yaml")
    latest, drawn = (round(100 * pool[name]) for name in ("latest_share", "pool_share"))
    text = " ".join((Path(__file__).parents[2] / "docs" / "curriculum.md").read_text().split())
    assert f"{latest} % of them (`latest_share`) play the newest copy" in text
    assert f"{drawn} % (`pool_share`) play" in text
    assert f"and the rest, {100 - latest - drawn} %, plays scripts" in text
    assert pool["pool_seats"] + 1 == 5
    assert f"With five seats in {latest + drawn} % of the envs" in text


# ------------------------------------------------------------------ snapshots


def test_snapshots_are_copies_taken_every_so_many_frames():
    found, env = league(pool_size=10)
    taken = {}
    for frames in range(0, 361, 40):
        env.policy.points.data.fill_(frames)
        found.after(frames, env.rollout([None] * N))
        taken[frames] = list(found.snapshots)
    assert [len(names) for names in taken.values()] == [1, 1, 1, 2, 2, 2, 3, 3, 3, 4]
    points = [weights["points"].item() for weights in found.snapshots.values()]
    assert points == [0.0, 120.0, 240.0, 360.0], "later learning changes no copy"
    assert list(found.snapshots) == [f"snapshot{number:03d}" for number in range(4)]


def test_the_oldest_snapshot_gives_way():
    found, env = league(pool_size=2)
    for number in range(5):
        found.after(100 * number, env.rollout([None] * N))
        assert len(found.snapshots) == min(number + 1, 2)
        assert set(found.seated) <= set(found.snapshots)
    names = ["snapshot003", "snapshot004"]
    assert list(found.snapshots) == names
    assert [name for name in found.payoff.players if name.startswith("snap")] == names
    assert [name for name in found.elo.ratings if name.startswith("snap")] == names
    # An episode that began against a snapshot that is gone counts for nobody.
    found.after(401, env.rollout([(tag(1), 1)] + [None] * (N - 1)))
    assert games_of(found.payoff) == {}


def test_a_snapshot_inherits_the_learners_results_and_rating():
    found, env = league()
    found.after(0, env.rollout([None] * N))
    found.after(10, env.rollout([(0, 1)] * 3 + [(tag(0), 0)] * 2 + [None] * 11))
    before = found.elo.ratings[LEARNER]
    found.after(100, env.rollout([(1, 1)] + [None] * 15))
    assert games_of(found.payoff) == {
        ("a", "snapshot001"): (0, 0, 3),
        ("b", "snapshot001"): (0, 0, 1),
        ("snapshot000", "snapshot001"): (2, 0, 0),
    }
    assert found.elo.ratings["snapshot001"] == found.elo.ratings[LEARNER] > before
    found.after(110, env.rollout([(0, 0.5)] + [None] * 15))
    assert games_of(found.payoff)["a", LEARNER] == (0, 1, 0), "the learner begins anew"


# ------------------------------------------------------------------ seats


def test_half_of_the_envs_play_the_newest_and_some_the_drawn_ones():
    found, env = league(FakeEnv(num_envs=20))
    assert env.opponent.blocks == [], "nobody to sit down yet"
    for frames in (0, 100):
        found.after(frames, env.rollout([None] * 20))
    newest, *drawn = env.opponent.blocks
    assert (newest.start, newest.stop, newest.tag) == (0, 10, tag(1))
    assert [(block.start, block.stop) for block in drawn] == [(10, 12), (12, 15)]
    assert all(block.tag in (tag(0), tag(1)) for block in drawn)
    assert found.seated == [f"snapshot{block.tag - 1000:03d}" for block in env.opponent.blocks]


@pytest.mark.parametrize(
    ("shares", "blocks"),
    [
        ((1.0, 0.0), [(0, 16)]),
        ((0.0, 1.0), [(0, 8), (8, 16)]),
        (
            (0.9, 0.1),
            [(0, 14), (14, 15), (15, 16)],
        ),  # 0.9 + 0.1 leaves nothing, whatever rounding says
        ((0.0, 0.0), []),
    ],
)
def test_shares_cover_what_they_say(shares, blocks):
    found, env = league(latest_share=shares[0], pool_share=shares[1])
    found.after(0, env.rollout([None] * N))
    assert [(block.start, block.stop) for block in env.opponent.blocks] == blocks


def test_a_seat_plays_the_weights_of_its_snapshot_and_not_the_learners():
    found, env = league()
    for number, points in enumerate((100.0, 200.0, 300.0)):
        env.policy.points.data.fill_(points)
        found.after(100 * number, env.rollout([None] * N))
    env.policy.points.data.fill_(999.0)
    wanted = {tag(number): points for number, points in enumerate((100.0, 200.0, 300.0))}
    for _ in range(5):
        found.play(on=True)
        for block in env.opponent.blocks:
            assert block.policy.points.item() == wanted[block.tag]
            assert not block.policy.points.requires_grad


def test_the_hardest_snapshots_are_drawn_more_often():
    found, env = league()
    for number in range(3):
        found.after(100 * number, env.rollout([None] * N))
    results = [(tag(0), 1)] * 8 + [(tag(1), 1)] * 4 + [(tag(1), 0)] * 4
    found.after(201, env.rollout(results))
    found.after(202, env.rollout([(tag(2), 0)] * 8 + [None] * 8))
    # (1 - rate) squared, where rate counts two imagined draws: 9/10, 5/10 and 1/10
    weights = [0.1**2, 0.5**2, 0.9**2]
    seen, draws = Counter(), 1500
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(11)
        for _ in range(draws):
            found.play(on=True)
            seen.update(found.seated[1:])
    for number, weight in enumerate(weights):
        share = weight / sum(weights)
        spread = math.sqrt(share * (1 - share) / (2 * draws))
        assert seen[f"snapshot{number:03d}"] / (2 * draws) == pytest.approx(share, abs=5 * spread)


def test_a_fresh_snapshot_does_not_make_everybody_equally_hard():
    found, env = league(pool_size=2, pfsp_power=8.0, redraw_every=1)
    found.after(0, env.rollout([None] * N))
    # The learner beats snapshot000 always; then it is copied, and its own count begins at nothing.
    found.after(100, env.rollout([(tag(0), 1)] * N))
    seen = Counter()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        for _ in range(200):
            found.play(on=True)
            seen.update(found.seated[1:])
    # 1/18 against 1/2 to the power of 8 is one in fifty million
    assert seen["snapshot000"] == 0
    metrics = found.after(101, env.rollout([None] * N))
    assert metrics["league/score_pool"] == pytest.approx(17 / 18)


def test_seats_are_dealt_anew_every_so_many_rounds():
    found, env = league(redraw_every=3, snapshot_every=10**9, pool_seats=1)
    dealt = []
    seat = found._deal
    found._deal = lambda names: (dealt.append(found.rollouts), seat(names))
    for _ in range(9):
        found.after(1, env.rollout([None] * N))
    assert dealt == [1, 3, 6, 9], "with the first snapshot, then every third round"


def test_the_league_leaves_and_comes_back():
    found, env = league()
    for frames in (0, 100):
        found.after(frames, env.rollout([None] * N))
    found.play(on=False)
    assert (env.opponent.blocks, found.seated) == ([], [])
    found.play(on=True)
    assert found.seated[0] == "snapshot001"
    assert len(env.opponent.blocks) == 3
    with found.paused():
        assert env.opponent.blocks == []
    assert len(env.opponent.blocks) == 3


# ------------------------------------------------------------------ matchmaking


@pytest.mark.parametrize(
    ("scores", "power", "expected"),
    [
        ([0.9, 0.5, 0.1], 2.0, [0.01 / 1.07, 0.25 / 1.07, 0.81 / 1.07]),  # (1 - score)^2
        ([1.0, 0.75, 0.5], 2.0, [0.0, 0.2, 0.8]),  # an opponent that always loses is not drawn
        ([0.75, 0.25], 0.0, [0.5, 0.5]),
        ([0.75, 0.25], 1.0, [0.25, 0.75]),
        ([1.0] * 4, 2.0, [0.25] * 4),
        # 1e-10 ** 40 is below the smallest float, its ratio to the other is not
        ([1.0 - 1e-10, 1.0, 1.0 - 1e-10], 40.0, [0.5, 0.0, 0.5]),
    ],
)
def test_chances_by_hand(scores, power, expected):
    assert pfsp_weights(scores, power) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("scores", "power"), [([], 2.0), ([1.1], 2.0), ([-0.1], 2.0), ([math.nan], 2.0), ([0.5], -1)]
)
def test_impossible_scores_are_refused(scores, power):
    with pytest.raises(ValueError, match="expected at least one score"):
        pfsp_weights(scores, power)
