"""Lines and missile chases against the simulator's own ticks, and their symmetries."""

import math

import pytest
import torch

from navrl.envs.combat.sim import prediction
from navrl.envs.combat.sim.advance import advance
from navrl.envs.combat.sim.flight import Motion, fly
from navrl.envs.combat.sim.geometry import aircraft, incoming_missile
from navrl.envs.combat.sim.prediction import (
    ARCS,
    LEFT,
    RIGHT,
    Shot,
    Steered,
    along,
    begun,
    closest_approach,
    current_line,
    escape_line,
    place_on_escape,
    pursued,
)
from tests.envs.combat.sim.duels import motion_of, opening, orders, shipped_params

FIGHTER = shipped_params().fighter
POSES = [(1e3 * x, 7e3 - 1e3 * x, 37.0 * x, 180.0 + 20.0 * x) for x in range(15)]
THREAT = (30_000.0, 2_000.0, 0.0, 300.0)


def poses(*wanted, dtype=torch.float32):
    """Motion (N,) of (x, y, heading in degrees, speed)."""
    return Motion(*(field[0].to(dtype) for field in motion_of(list(wanted))))


def flown_in_ticks(line, time_s, tick_s=0.05):
    """The line by short arcs, one of them broken where the turn ends."""
    motion = Motion(*(field.double() for field in line.start))
    rudder, thrust, turn_s = (field.double() for field in line[1:])
    for tick in range(round(time_s / tick_s)):
        part_s = (turn_s - tick * tick_s).clamp(0.0, tick_s)
        motion = fly(FIGHTER, motion, rudder, thrust, part_s)
        motion = fly(FIGHTER, motion, torch.zeros_like(rudder), thrust, tick_s - part_s)
    return motion


@pytest.mark.parametrize("time_s", [0.0, 4.0, 20.0, 60.0])
@pytest.mark.parametrize("name", ["left", "right", "current"])
def test_a_line_is_what_the_simulator_flies(name, time_s):
    motion, threat = poses(*POSES), poses(*[THREAT] * len(POSES))
    rudder = torch.linspace(-1.0, 1.0, len(POSES))
    line = {
        "left": escape_line(FIGHTER, motion, threat, LEFT),
        "right": escape_line(FIGHTER, motion, threat, RIGHT),
        "current": current_line(FIGHTER, Steered(motion, rudder, 0.5 * rudder.abs())),
    }[name]
    found = along(FIGHTER, line, torch.full_like(rudder, time_s))
    expected = flown_in_ticks(line, time_s)
    for field, tolerance in (("x_m", 0.3), ("y_m", 0.3), ("speed_mps", 0.01)):
        assert (getattr(found, field) - getattr(expected, field)).abs().max() < tolerance
    if name != "current":  # whose thrust and turn the shorter way takes for granted
        x_m, y_m = place_on_escape(FIGHTER, line, torch.full_like(rudder, time_s))
        assert torch.hypot(x_m - expected.x_m, y_m - expected.y_m).max() < 0.3
    if name == "current":  # which keeps the throttle: the slowest is the one with least of it
        assert torch.equal(line.thrust_mps2, 0.5 * rudder.abs() * FIGHTER.thrust_mps2)
        assert line.turn_s.isinf().all()


@pytest.mark.parametrize(
    ("off_away_deg", "left_turn_deg", "right_turn_deg"),
    [(0.0, 0.0, 0.0), (10.0, 0.0, 10.0), (-10.0, 10.0, 0.0), (30.0, 330.0, 30.0)],
)
def test_who_all_but_points_away_flies_no_circle(off_away_deg, left_turn_deg, right_turn_deg):
    # The threat is at the origin, so away is along x; off_away is to the left of it.
    motion, threat = poses((9e3, 0.0, off_away_deg, 300.0)), poses((0.0, 0.0, 0.0, 300.0))
    for side, turn_deg in ((LEFT, left_turn_deg), (RIGHT, right_turn_deg)):
        line = escape_line(FIGHTER, motion, threat, side)
        end = along(FIGHTER, line, line.turn_s)
        heading = math.degrees(math.atan2(end.sin_heading, end.cos_heading))
        turned = side * (heading - off_away_deg)
        assert turned % 360.0 == pytest.approx(turn_deg, abs=0.01)
        assert (line.turn_s.item() < 1e-3) == (turn_deg == 0.0)


def test_a_load_limit_widens_the_turn():
    # 6 g at 300 m/s: curvature 6 * 9.8 / 300^2 = 6.533e-4 1/m, rudder 0.6533, radius 1531 m.
    limited = FIGHTER._replace(max_load_g=6.0)
    motion, threat = poses((9e3, 0.0, 180.0, 300.0)), poses((0.0, 0.0, 0.0, 300.0))
    line = escape_line(limited, motion, threat, LEFT)
    assert line.rudder.item() == pytest.approx(0.65333, rel=1e-4)
    end = along(limited, line, line.turn_s)
    assert end.y_m.item() == pytest.approx(-2.0 * 1000.0 / 0.65333, abs=1.0)
    hard = Steered(motion, torch.tensor([-1.0]), torch.tensor([1.0]))
    assert current_line(limited, hard).rudder.item() == pytest.approx(-0.65333, rel=1e-4)
    slow = motion._replace(speed_mps=torch.tensor([150.0]))  # 2.3 g at full rudder
    assert escape_line(limited, slow, threat, LEFT).rudder.item() == 1.0


ROWS = 240


@pytest.fixture(scope="module")
def fight():
    """Params of short decisions, and missiles 0.1 to 15 s old at targets that now turn or do not."""
    params = shipped_params(decision_s=0.1)
    generator = torch.Generator().manual_seed(7)
    draw = torch.rand(6, ROWS, generator=generator)
    shooters = [(0.0, 0.0, 120.0 * a - 60.0, 200.0 + 250.0 * b) for a, b in draw[:2].t().tolist()]
    targets = [
        (8000.0 + 20_000.0 * a, 0.0, 360.0 * b, 200.0 + 250.0 * c)
        for a, b, c in draw[2:5].t().tolist()
    ]
    state = opening(params, shooters, targets)
    old = (150 * draw[5] * (draw[0] < 0.7)).long()  # decisions after the launch when we look
    kept = None
    for number in range(151):
        state, _ = advance(params, state, orders(state, fire=[number == 0, False]))
        kept = state if kept is None else later(old >= number, state, kept)
    rudder = torch.tensor([-1.0, -0.4, 0.0, 1.0])[torch.arange(ROWS) % 4]
    rudders = torch.stack([torch.zeros(ROWS), rudder])
    kept = kept._replace(aircraft=kept.aircraft._replace(rudder=rudders))
    assert kept.missiles.active[0, 0].sum() > 0.9 * ROWS
    return params, kept


def later(mask, new, old):
    """Row by row of two states: new where mask."""
    if isinstance(new, torch.Tensor):
        return torch.where(mask, new, old)
    fields = [later(mask, a, b) for a, b in zip(new, old, strict=True)]
    return tuple(fields) if type(new) is tuple else type(new)(*fields)


def chord_miss_m(before, after):
    """Least distance from the origin along the straight way between two places."""
    (x, y), (dx, dy) = before, [b - a for a, b in zip(before, after, strict=True)]
    part = (-(x * dx + y * dy) / (dx * dx + dy * dy).clamp_min(1e-12)).clamp(0.0, 1.0)
    return torch.hypot(x + part * dx, y + part * dy)


@pytest.fixture(scope="module")
def flown(fight):
    """Fly every missile in the simulator; its least distance, the time and speed there, and hits."""
    params, state = fight
    miss_m, time_s, speed = torch.full((ROWS,), torch.inf), torch.zeros(ROWS), torch.zeros(ROWS)
    hit = torch.zeros(ROWS, dtype=torch.bool)
    for number in range(450):
        before = state
        state, events = advance(params, state, orders(state, rudder=state.aircraft.rudder))
        chord = [
            tuple(
                a[1] - b[0, 0]
                for a, b in zip(s.aircraft.motion[:2], s.missiles.motion[:2], strict=True)
            )
            for s in (before, state)
        ]
        now_m = chord_miss_m(*chord)
        nearer = before.missiles.active[0, 0] & (now_m < miss_m)
        miss_m = torch.where(nearer, now_m, miss_m)
        time_s = torch.where(nearer, 0.1 * (number + 1), time_s)
        speed = torch.where(nearer, state.missiles.motion.speed_mps[0, 0], speed)
        hit = hit | events.hit[0]
    return miss_m, time_s, speed, hit, fight[1].missiles.active[0, 0]


def question(fight):
    """The shot, and the line that its target keeps."""
    params, state = fight
    shot = incoming_missile(params, state, 1)
    craft = Steered(aircraft(state, 1), state.aircraft.rudder[1], state.aircraft.throttle[1])
    return params, Shot(shot.motion, shot.age_s), current_line(params.fighter, craft)


def test_short_arcs_fly_what_the_simulator_flies(fight, flown):
    params, shot, line = question(fight)
    chase = begun(params, shot, line)
    for _ in range(180):
        chase = pursued(params, chase, line, torch.full((ROWS,), 0.25))
    miss_m, time_s, speed, hit, active = flown
    found = chase.closest
    # A hit ends the flight in the simulator; the prediction goes on to the very closest.
    assert 0.25 * ROWS < (hit & active).sum() < 0.75 * ROWS
    assert (found.miss_m[hit] < 160.0).all()
    assert (found.miss_m[hit] < 100.0).float().mean() > 0.97
    missed = active & ~hit
    error_m = (found.miss_m - miss_m)[missed].abs()
    assert error_m.median() < 25.0
    assert (error_m < 60.0 + 0.03 * miss_m[missed]).float().mean() > 0.97
    assert (found.time_s - time_s)[active].abs().median() < 0.3
    assert (found.speed_mps - speed)[active].abs().median() < 15.0


def test_sixteen_arcs_are_near_enough_for_a_policy(fight, flown):
    params, shot, line = question(fight)
    miss_m, time_s, speed, hit, active = flown
    found = closest_approach(params, shot, line)
    error_m = (found.miss_m - torch.where(hit, 0.0, miss_m))[active].abs()
    assert ARCS == 16
    assert error_m.median() < 100.0
    assert error_m.quantile(0.9) < 800.0
    assert (found.time_s - time_s)[active].abs().median() < 1.0
    assert (found.speed_mps - speed)[active].abs().median() < 40.0


def straight_question(params, missile, target, age_s, rudder=0.0):
    """One missile at (x, y, cos, sin, speed), its target likewise."""
    shot = Shot(Motion(*(torch.tensor([value]) for value in missile)), torch.tensor([age_s]))
    prey = Motion(*(torch.tensor([value]) for value in target))
    craft = Steered(prey, torch.tensor([rudder]), torch.tensor([1.0]))
    return params, shot, current_line(params.fighter, craft)


def test_a_missile_that_is_outrun_is_closest_now():
    params = shipped_params()
    missile, target = (0.0, 0.0, 1.0, 0.0, 300.0), (3000.0, 400.0, 1.0, 0.0, 400.0)
    miss_m, time_s, speed = closest_approach(*straight_question(params, missile, target, 20.0))
    assert miss_m.item() == pytest.approx(3026.55, rel=1e-5)
    assert (time_s.item(), speed.item()) == (0.0, 300.0)


def test_the_legacy_law_is_the_legacy_law():
    # Full rudder at 0.9 deg/s of line-of-sight rate: a crossing target is led harder and sooner.
    missile, target = (0.0, 0.0, 1.0, 0.0, 900.0), (9000.0, 0.0, 0.0, 1.0, 300.0)
    headings = []
    for law in ("proportional", "legacy_gain"):
        params = shipped_params(guidance_law=law)
        _, shot, line = straight_question(params, missile, target, 12.0)
        chase = pursued(params, begun(params, shot, line), line, torch.tensor([0.25]))
        headings.append(chase.shot.motion.sin_heading.item())
    # line-of-sight rate 300 / 9000: rudder 4 * 1000 / 900 * 0.0333 = 0.148, and 200 / pi * 0.0333 > 1
    assert headings[0] == pytest.approx(0.148 * 0.9 * 0.25, rel=0.1)
    assert headings[1] > 1.2 * headings[0]
    assert headings[1] < 0.9 * 0.25


def test_the_arcs_compile_as_one_piece_that_fits_every_time(fight, monkeypatch):
    monkeypatch.setattr(prediction, "ARCS", 3)
    params, shot, line = question(fight)
    compiled = torch.compile(closest_approach, backend="aot_eager", fullgraph=True, dynamic=False)
    with torch.no_grad():
        found = compiled(params, shot, line)
    for a, b in zip(found, closest_approach(params, shot, line), strict=True):
        assert torch.allclose(a, b, rtol=1e-5, atol=0.05)
