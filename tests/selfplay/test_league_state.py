"""Self-play: going on from a checkpoint, impossible options, and strengths that are known beforehand."""

import pytest
import torch

from navrl.selfplay.league import SelfPlay
from navrl.storage.compare import differences
from tests.selfplay.fakes import OPTIONS, FakeEnv, Idle, N, league, tag

# ------------------------------------------------------------------ going on


def played(**changes):
    """A league in the middle of its life, with its agent."""
    found, env = league(**changes)
    for number in range(7):
        env.policy.points.data.fill_(number)
        tags = [0, 1, *(tag(n) for n in range(number))]
        games = [(tags[i % len(tags)], (0, 0.5, 1)[i % 3]) for i in range(N)]
        found.after(60 * number, env.rollout(games))
    return found, env


@pytest.mark.parametrize("on", [True, False])
def test_the_state_goes_on_bit_for_bit(on):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        found, env = played(redraw_every=2)
        found.play(on=on)
        other, place = league(redraw_every=2, on=False)
        other.play(on=on)
        other.load_state_dict(found.state_dict())
        assert differences(other.state_dict(), found.state_dict()) == []
        assert [b._replace(policy=None) for b in place.opponent.blocks] == [
            b._replace(policy=None) for b in env.opponent.blocks
        ]
        assert torch.equal(place.opponent._tags, env.opponent._tags)
        states = []
        for each, where in ((found, env), (other, place)):
            torch.manual_seed(2)
            where.policy.points.data.fill_(77.0)
            each.play(on=True)
            for number in range(4):
                each.after(500 + 30 * number, where.rollout([(tag(3), 1), (0, 0)] + [None] * 14))
            states.append(each.state_dict())
    assert differences(*states) == []


def test_what_is_saved_does_not_change_when_the_league_goes_on():
    found, env = played()
    saved = found.state_dict()
    kept = list(saved["snapshots"]), saved["pilot"]["changes"].tolist(), list(saved["seated"])
    for number in range(3):
        found.after(1000 + 100 * number, env.rollout([None] * N))
    assert (list(saved["snapshots"]), saved["pilot"]["changes"].tolist(), saved["seated"]) == kept


def test_a_smaller_pool_or_fewer_seats_from_now_on():
    found, _ = played(pool_size=3)
    other, env = league(pool_size=1, pool_seats=1)
    other.load_state_dict(found.state_dict())
    assert len(env.opponent.blocks) == 2
    other.after(10**6, env.rollout([None] * N))
    assert len(other.snapshots) == 1


def test_scripts_that_the_saved_league_never_met_are_refused():
    found, _ = played()
    other, _ = league(FakeEnv(scripts=("a", "c")))
    with pytest.raises(
        ValueError, match=r"has never met c; expected the scripts it was saved with"
    ):
        other.load_state_dict(found.state_dict())


# ------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("latest_share", -0.1, "0 to 1"),
        ("pool_share", 0.51, "0 to 0.5, what latest_share leaves"),
        ("snapshot_every", 0, "a whole number, 1 or more"),
        ("pool_size", 0, "a whole number, 1 or more"),
        ("redraw_every", 0, "a whole number, 1 or more"),
        ("pfsp_power", -2.0, "a finite number of at least 0"),
        ("elo_k", 0.0, "a finite number above 0"),
    ],
)
def test_impossible_numbers_are_refused(name, value, expected):
    with pytest.raises(ValueError, match=r"curriculum\.self_play") as refused:
        SelfPlay(**(OPTIONS | {name: value}))
    place = f"curriculum.self_play.{name}"
    assert str(refused.value) == f"{place} = {value}; expected {expected}; change {place}"


def test_it_needs_the_league_as_opponent():
    env = FakeEnv()
    env.opponent = Idle()
    with pytest.raises(ValueError, match="needs opponent=league; got Idle; change opponent"):
        SelfPlay(**OPTIONS).attach(env, env)


# ------------------------------------------------------------------ known strengths
