"""The shield: what is safe passes to the last bit, what is not becomes the nearest that is."""

import functools
import math
import random

import pytest
import torch

from navrl.envs.navigation.planners.base import perceive
from navrl.envs.navigation.planners.shield import Shield
from navrl.envs.navigation.sim.state import heading, to_world_frame
from tests.envs.navigation.envs import make_env
from tests.envs.navigation.planners.perceptions import (
    HORIZONS_S,
    RESPONSE_S,
    SPEEDS_MPS,
    candidates,
    passed_m,
    prediction,
    sight,
)

MARGIN_M, PILLAR_M = 0.35, 0.35


@functools.cache
def shipped():
    """An env of one drone, for its parameters."""
    return make_env("world.count=1", "world.routes_per_world=4", num_envs=1)


def make_shield():
    """Build the shield of shield=on."""
    looking = prediction(
        horizons_s=HORIZONS_S,
        response_s=RESPONSE_S,
        static_radius_m=PILLAR_M,
        moving_margin_m=MARGIN_M,
    )
    shield = Shield(prediction=looking, headings=24, speeds_mps=SPEEDS_MPS)
    shield.prepare(shipped().params)
    return shield


def drawn_scene(drawn):
    """Two pillars at the ends of beams and two columns, none so near that one is in it already."""
    beams = [(drawn.randrange(36), drawn.uniform(0.6, 2.5)) for _ in range(2)]
    moving = []
    for _ in range(2):
        angle, away = drawn.uniform(0.0, 2.0 * math.pi), drawn.uniform(1.0, 3.0)
        motion = (drawn.uniform(-1.0, 1.0), drawn.uniform(-1.0, 1.0))
        place = (away * math.cos(angle), away * math.sin(angle))
        moving.append((place, motion, drawn.choice((0.125, 0.25, 0.375, 0.5))))
    discs = [(place, motion, radius + MARGIN_M) for place, motion, radius in moving]
    for beam, range_m in dict(beams).items():
        angle = math.radians(10.0 * beam)
        place = (range_m * math.cos(angle), range_m * math.sin(angle))
        discs.append((place, (0.0, 0.0), PILLAR_M))
    return beams, moving, discs


def test_the_nearest_safe_velocity_is_that_of_a_slow_search():
    drawn, shield = random.Random(0), make_shield()
    passed = changed = 0
    for _ in range(300):
        beams, moving, discs = drawn_scene(drawn)
        velocity = (drawn.uniform(-1.0, 1.0), drawn.uniform(-1.0, 1.0))
        command = (drawn.uniform(-2.0, 2.0), drawn.uniform(-2.0, 2.0))
        scene = sight(velocity=(*velocity, 0.0), beams=beams, moving=moving)
        given = torch.tensor([[command[0]], [command[1]], [0.3]])
        flown, intervened = shield.protect(scene, None, given)[:2]
        assert flown[2].item() == given[2].item()
        margins = {
            each: passed_m(discs, velocity, each) for each in (command, *candidates(command))
        }
        if min(abs(margin) for margin in margins.values()) < 1e-3:
            continue  # rounding decides
        safe = [each for each, margin in margins.items() if margin > 0.0]
        if command in safe:
            assert torch.equal(flown, given)
            assert not intervened.item()
            passed += 1
        elif safe:
            least = min(math.dist(each, command) for each in safe)
            found = (flown[0].item(), flown[1].item())
            assert math.dist(found, command) == pytest.approx(least, abs=1e-4)
            assert passed_m(discs, velocity, found) > 0.0
            assert intervened.item()
            changed += 1
    assert passed > 30
    assert changed > 30


def test_where_nothing_is_safe_it_takes_what_hits_last():
    """A ring of walls 0.36 m away, 0.01 m from the discs: only to stay lasts."""
    scene = sight(beams=[(beam, 0.36) for beam in range(36)])
    flown = make_shield().protect(scene, None, torch.tensor([[2.0], [0.0], [0.0]])).velocity
    assert flown[:2].abs().max() == 0.0


def test_interventions_are_counted():
    """The statistic of the env is the share of decisions whose command the shield has changed."""
    env = make_env(
        *("shield=on", "world.count=1", "world.routes_per_world=8", "world.renew_episodes=null"),
        *("world.map.half_side_m=8", "world.map.count=60", "world.difficulty.static=60"),
        *("world.routes.x_m=[-8,8]", "world.routes.y_m=[-8,8]", "world.routes.distance_m=[4,16]"),
        num_envs=16,
    )
    root, shield, params = env.reset(), make_shield(), env.params
    changed, change_mps, decisions = torch.zeros(16), torch.zeros(16), torch.zeros(16)
    names, torch_state = env.episode_keys, torch.Generator().manual_seed(0)
    for _ in range(40):
        state = env.state
        action = torch.rand(16, 3, generator=torch_state) * 2.0 - 1.0
        command = to_world_frame(heading(params, state), 2.0 * action.t())
        flown = shield.protect(perceive(params, state), None, command).velocity
        differs = (flown != command).any(0)
        changed, decisions = changed + differs, decisions + 1.0
        change_mps = change_mps + (flown - command).square().sum(0).sqrt()
        stepped, root = env.step_and_maybe_reset(root.set("action", action))
        observed = stepped["next", "episode"]
        expected = (changed / decisions, change_mps / decisions)
        for name, share in zip(("interventions", "shield_mps"), expected, strict=True):
            assert torch.allclose(observed[:, names.index(name)], share, atol=1e-5)
        done = stepped["next", "done"].squeeze(-1)
        changed, change_mps, decisions = (
            torch.where(done, 0.0, total) for total in (changed, change_mps, decisions)
        )
        if changed.sum() > 5 and decisions.max() > 20:
            return
    raise AssertionError("nobody was ever changed")


@pytest.mark.parametrize("wrong", [{"headings": 0}, {"speeds_mps": []}, {"speeds_mps": [1.0, 0.0]}])
def test_a_fan_without_a_choice_is_refused_by_name(wrong):
    (name,) = wrong
    fan = {"headings": 24, "speeds_mps": SPEEDS_MPS} | wrong
    with pytest.raises(ValueError, match=rf"^{name} = .*; change {name}$"):
        Shield(prediction=None, **fan)
