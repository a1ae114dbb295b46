"""Every preset of conf/reward rewards a whole episode by its table."""

import math

import pytest

from navrl.config.compose import build, compose
from tests.envs.combat.sim.duels import opening
from tests.envs.combat.steps import PARAMS, transition, with_craft

# The weights of each preset: per outcome, per event, per missile spared by a winner, per unit of shaping.
REWARDS = {
    "zero": {},
    "standard": {"win": 1.0, "loss": -1.0},
    "combat": {"win": 1.0, "loss": -1.0, "attack": 0.1},  # and 0.1 of evade, with nothing to evade
    "shaped": {"win": 1.0, "loss": -1.0, "attack": 0.1, "defend": 0.1},
    "phase1": {
        **{"win": 1.0, "loss": -1.0, "draw": -0.5, "timeout": -0.5},
        **{"launch": -0.05, "spared": 0.2, "attack": 0.2},
    },
    "phase2": {
        **{"win": 1.0, "loss": -1.0, "defeated": 0.3, "launch": -0.02},
        **{"attack": 0.05, "defend": 0.2},
    },
    "phase3": {
        **{"win": 1.0, "loss": -1.0, "draw": -0.1, "timeout": -0.1},
        **{"defeated": 0.1, "launch": -0.02, "attack": 0.05, "defend": 0.05},
    },
    "team": {
        **{"win": 1.0, "loss": -1.0, "draw": -0.5, "timeout": -0.5},
        **{"hit": 1.0, "killed": -0.5, "attack": 0.1},  # and 0.1 of evade, as in combat
    },
    "seed_env": {
        **{"win": 500 / 500, "loss": -500 / 500, "draw": -50 / 500},
        **{"hit": 100 / 500, "killed": -200 / 500, "launch": -5 / 500, "frame": 0.1 / 500},
    },
    "legacy_standard": {"win": 500.0, "loss": -500.0, "state": 0.005 + 0.05 * 0.6 - 0.001 * 7.0},
}
GAMMA = 0.995

# The enemy is 24 km ahead and 32 km to the left: 40 km away, cos(bearing) = 0.6, beyond 10 km of margin.
ATTACK, DEFEND = 0.8 * math.exp(-1.5), 1.0

ALIVE = {"win": (1, 0), "loss": (0, 1), "trade": (0, 0), "disarmed": (1, 1), "timeout": (1, 1)}


def played(outcome):
    """Three steps: a launch, a missile defeated, the end; nobody moves."""
    state = opening(PARAMS, [(0.0, 0.0, 0.0, 300.0)], [(24e3, 32e3, 180.0, 300.0)])
    less = with_craft(state, rounds=(5, 6))
    end = with_craft(less, alive=ALIVE[outcome])
    dead, killer = (not alive for alive in ALIVE[outcome])
    return [
        transition(state, less, launched=[True, False]),
        transition(less, less, defeated=[True, False]),
        transition(
            less,
            end,
            terminated=outcome != "timeout",
            truncated=outcome == "timeout",
            hit=[killer, dead],
            killed=[dead, killer],
        ),
    ]


def total(reward, steps):
    return sum(reward(step)[0].item() for step in steps)


def expected_total(table, outcome):
    """Compute the return from the table."""
    weight = {
        **dict.fromkeys(("frame", "state", "attack", "defend", "spared", "launch"), 0.0),
        **table,
    }
    name = {"trade": "draw", "disarmed": "draw"}.get(outcome, outcome)
    value = weight.get(name, 0.0) + weight["launch"] + weight.get("defeated", 0.0)
    value += weight["spared"] * 5 / 6 * (outcome == "win")
    value += weight.get("hit", 0.0) * (outcome in ("win", "trade"))
    value += weight.get("killed", 0.0) * (outcome in ("loss", "trade"))
    value += weight["frame"] * 60 * 2  # the frames of the two steps that ended nothing
    value += weight["state"] * (3 if outcome in ("disarmed", "timeout") else 2)
    potential = weight["attack"] * ATTACK + weight["defend"] * DEFEND
    last = (GAMMA - 1.0) if outcome == "timeout" else -1.0
    return value + potential * (2 * (GAMMA - 1.0) + last)


def preset(name):
    reward = build(compose("train", [f"reward={name}"]).reward)
    reward.prepare(PARAMS, "cpu")
    return reward


@pytest.mark.parametrize("outcome", ALIVE)
@pytest.mark.parametrize("name", REWARDS)
def test_an_episode_is_rewarded_by_its_table(name, outcome):
    wanted = expected_total(REWARDS[name], outcome)
    assert total(preset(name), played(outcome)) == pytest.approx(wanted, rel=1e-6, abs=2e-6)


def test_every_preset_has_its_table(root):
    others = {file.stem for file in (root / "conf/env").glob("*.yaml")} - {"combat"}
    found = {file.stem for file in (root / "conf/reward").glob("*.yaml")}
    assert found - others == {*REWARDS, "cold_start"}  # another env's preset has the env's name


@pytest.mark.parametrize("name", ["standard", "phase1", "phase2", "phase3"])
def test_cold_start_can_be_weighed_as_each_lesson(name):
    lesson, reward = preset(name), preset("cold_start")
    weights = dict(zip(lesson.names, lesson.weights.tensor.tolist(), strict=True))
    reward.set_weights(dict.fromkeys(reward.names, 0.0) | weights)
    for outcome in ALIVE:
        wanted = expected_total(REWARDS[name], outcome)
        assert total(reward, played(outcome)) == pytest.approx(wanted, abs=2e-6)


def test_cold_start_begins_as_the_first_lesson():
    for outcome in ALIVE:
        wanted = expected_total(REWARDS["phase1"], outcome)
        assert total(preset("cold_start"), played(outcome)) == pytest.approx(wanted, abs=2e-6)
