"""Properties of every scripted pilot, and the commands of `straight` and `pursuit`."""

import math

import pytest
import torch

from navrl.envs.combat import opponents
from navrl.envs.combat.match import play
from navrl.envs.combat.opponents.pursuit import Pursuit
from navrl.envs.combat.opponents.straight import Straight
from navrl.envs.combat.scenarios import MidRandom
from navrl.envs.combat.sim.advance import advance
from navrl.envs.combat.sim.flight import Motion
from navrl.envs.combat.sim.state import initial_state
from tests.envs.combat.observations.pictures import mirrored
from tests.envs.combat.opponents.pictures import (
    DEGREE,
    NAMES,
    PARAMS,
    bearing_of_enemy,
    command,
    firing,
    flown,
    incoming,
    keys,
    picture,
    pilot,
    unarmed,
)
from tests.envs.combat.sim.duels import env_rows, options, orders, read_yaml, shipped_params

COUNT = 200


def scenario():
    """The shipped default."""
    return MidRandom(**options(read_yaml("scenario/mid_random.yaml")))


@pytest.fixture(scope="module")
def fight():
    """Fights 14 s after a first shot of one side, the other or both: missiles are in the air."""
    state = initial_state(PARAMS, scenario().opening(keys(COUNT), 1))
    shooter = torch.arange(COUNT) % 3
    fire = torch.stack([shooter != 1, shooter != 0])
    for number in range(20):
        state, _ = advance(PARAMS, state, orders(state, fire=fire & (number == 6)))
    return state


@pytest.mark.parametrize("name", NAMES)
def test_an_env_is_flown_the_same_in_any_batch(name, fight):
    opponent = pilot(name)
    whole, after = opponent.act(PARAMS, fight, 1, opponent.initial(keys(COUNT)))
    for rows in (slice(0, 7), slice(150, 151), slice(37, COUNT)):
        part = env_rows(fight, rows)
        memory = opponent.initial(keys(COUNT)[rows])
        found, kept = opponent.act(PARAMS, part, 1, memory)
        assert torch.equal(found.rudder, whole.rudder[rows])
        assert torch.equal(found.throttle, whole.throttle[rows])
        assert torch.equal(found.fire, whole.fire[rows])
        assert all(torch.equal(a, b[rows]) for a, b in zip(kept, after, strict=True))


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("random", "phase3")])
def test_in_a_mirror_it_turns_the_other_way(name, fight):
    opponent = pilot(name)
    memory = opponent.initial(keys(COUNT))
    (found, _), (seen, _) = (
        opponent.act(PARAMS, state, 1, memory) for state in (fight, mirrored(fight))
    )
    assert seen.rudder.tolist() == pytest.approx((-found.rudder).tolist(), abs=1e-5)
    assert torch.equal(seen.throttle, found.throttle)
    assert torch.equal(seen.fire, found.fire)


@pytest.mark.parametrize("name", NAMES)
def test_its_commands_are_in_range_and_it_flies_either_seat(name, fight):
    opponent = pilot(name)
    for me in (0, 1):
        found, _ = opponent.act(PARAMS, fight, me, opponent.initial(keys(COUNT)))
        assert found.rudder.abs().max() <= 1.0
        assert found.throttle.min() >= 0.0
        assert found.throttle.max() <= 1.0
        assert found.fire.dtype == torch.bool
        assert found.rudder.shape == found.throttle.shape == found.fire.shape == (COUNT,)
    assert (name in ("straight", "pursuit")) == (not fires_ever(opponent))


# The options that decide on a shot beside a cone of 30 degrees, and shots (range km, bearing, fired).
SHOTS = {
    "crank": (
        {"fire_fraction": 1.0},
        [(10, 29.5, 1), (10, -29.5, 1), (10, 30.5, 0), (10, -30.5, 0)],
    ),
    "crank_seed": (
        {"fire_range_m": 20e3, "defend_range_m": 18e3, "fire_pause_s": 10.0},
        [(19.9, 0, 1), (18.1, 0, 1), (17.9, 0, 0), (20.1, 0, 0), (19, 29.5, 1), (19, -30.5, 0)],
    ),
    "phase2": (
        {"fire_range_m": 25e3},
        [(24.9, 0, 1), (25.1, 0, 0), (24.9, 29.5, 1), (24.9, -30.5, 0), (3, 0, 1)],
    ),
    "phase3": ({"fire_range_m": 18e3}, [(17.9, 0, 1), (18.1, 0, 0), (17.9, 30.5, 0), (3, -29, 1)]),
}


@pytest.mark.parametrize("name", SHOTS)
def test_it_fires_in_its_range_and_cone_with_a_missile_while_none_flies(name):
    options, shots = SHOTS[name]
    opponent = pilot(name, fire_cone_rad=30 * DEGREE, **options)
    for range_km, bearing, fired in shots:
        state = picture(bearing, 1e3 * range_km)
        assert command(opponent, state)[2] == bool(fired)
        assert not command(opponent, firing(state))[2]
        assert not command(opponent, unarmed(state, 1))[2]


def fires_ever(opponent):
    """Return True if it shoots at an aircraft that flies at it from 40 km."""
    _, launches = flown(opponent, picture(0.0, 40e3), 60)
    return any(flag[1].item() for flag in launches)


@pytest.mark.parametrize("name", NAMES)
def test_its_thresholds_are_drawn_anew_for_every_episode(name):
    opponent = pilot(name)
    drawn = [f for f in opponent.initial(keys(4000)) if f.is_floating_point() and f.std() > 0.0]
    again = [f for f in opponent.initial(keys(4000)) if f.is_floating_point() and f.std() > 0.0]
    other = [
        f
        for f in opponent.initial(keys(4000, episode=1))
        if f.is_floating_point() and f.std() > 0.0
    ]
    shipped = read_yaml(f"opponent/{name}.yaml")
    ranges = {key: pair for key, pair in shipped.items() if isinstance(pair, list)}
    assert len(drawn) == len(ranges)
    for field, same, new, (key, pair) in zip(drawn, again, other, ranges.items(), strict=True):
        low, high = sorted(map(math.cos, pair)) if key == "fire_cone_rad" else pair
        part = (field - low) / (high - low)
        assert -1e-3 < part.min() < 0.01
        assert 0.99 < part.max() < 1.001
        assert part.mean().item() == pytest.approx(0.5, abs=5.0 / math.sqrt(12.0 * 4000))
        assert torch.equal(field, same)
        assert (field == new).float().mean() < 0.01
    if len(drawn) > 1:
        correlation = torch.corrcoef(torch.stack(drawn)) - torch.eye(len(drawn))
        assert correlation.abs().max() < 5.0 / math.sqrt(4000)


@pytest.mark.parametrize("name", NAMES)
def test_it_flies_in_teams_and_at_the_nearest_enemy(name):
    params = shipped_params(team_size=2, time_limit_s=12.0)
    opponent = pilot(name, params)
    ends = play(params, scenario(), (opponent, opponent), keys(5))
    assert ends.shape == (4, 5)
    # The nearer of the two enemies is to the left, the farther to the right: it is the left one
    # that matters.
    x_m = torch.tensor([[0.0], [0.0], [0.0], [300.0]])
    y_m = torch.tensor([[26e3], [-27e3], [0.0], [0.0]])
    heading = torch.tensor([[1.0], [1.0], [1.0], [1.0]])
    motion = Motion(x_m, y_m, heading, 0.0 * heading, 300.0 * heading)
    near = initial_state(params, motion)
    swapped = initial_state(params, motion._replace(y_m=-y_m))
    memory = opponent.initial(keys(1))
    left, right = (opponent.act(params, state, 2, memory)[0].rudder for state in (near, swapped))
    if name == "straight":
        assert left == right == 0.0
    elif name != "random":
        assert left == 1.0
        assert right == -1.0


@pytest.mark.parametrize(
    ("name", "range_m", "decisions", "away"),
    [("crank", 21e3, 100, 150.0), ("phase3", 25e3, 110, 90.0)],
)
def test_it_turns_away_from_a_missile_and_attacks_again(name, range_m, decisions, away):
    states, launches = flown(pilot(name), picture(0.0, range_m), decisions, enemy_fires=(0,))
    assert max(abs(bearing_of_enemy(state)) for state in states[:40]) > away
    assert any(flag[1].item() for flag in launches)
    assert states[-1].aircraft.alive[:, 0].tolist() == [False, True]


@pytest.mark.parametrize("bearing", [0.0, 90.0, -135.0, 180.0])
def test_straight_never_turns_nor_fires(bearing):
    state = incoming(picture(bearing, range_m=4e3), bearing, 2e3)
    assert command(Straight(), state) == (0.0, 1.0, False)


@pytest.mark.parametrize(
    ("bearing", "rudder"),
    # A dead zone of 0.05 rad = 2.86 degrees; dead astern it turns left, whichever side it is on.
    [
        *((0.0, 0.0), (2.5, 0.0), (-2.5, 0.0), (3.2, 1.0), (-3.2, -1.0), (90.0, 1.0)),
        *((-170.0, -1.0), (179.0, 1.0), (-179.0, 1.0), (180.0, 1.0)),
    ],
)
def test_pursuit_turns_towards_the_enemy_outside_its_dead_zone(bearing, rudder):
    pursuit = Pursuit(dead_zone_rad=0.05)
    assert command(pursuit, picture(bearing, range_m=5e3)) == (rudder, 1.0, False)


@pytest.mark.parametrize(
    ("name", "threshold", "pair"),
    [
        ("crank", "fire_fraction", [1.5, 1.0]),
        ("crank", "fire_fraction", [-5.0, -3.0]),
        ("crank", "crank_angle_rad", [0.5, 50.0]),  # degrees, by mistake
        ("crank_seed", "fire_pause_s", [3.0]),
        ("phase2", "support_s", [math.nan, 1.0]),
        ("phase3", "snake_period_s", [0.0, 4.0]),  # divides by it
        ("random", "hold_s", [0.0, 4.0]),
        ("random", "fire_interval_s", [9.0, 1.0]),
        ("stg_rule", "attack_margin_m", [0.0, -500.0]),
        ("stg_rule", "turn_out_fraction", [-1.0, 1.0]),
    ],
)
def test_impossible_thresholds_are_named(name, threshold, pair):
    node = read_yaml(f"opponent/{name}.yaml")
    maker = getattr(opponents, node["_target_"].rpartition(".")[2])
    with pytest.raises(ValueError, match=f"^{threshold} = .*; change {threshold}$"):
        maker(**(options(node) | {threshold: pair}))
