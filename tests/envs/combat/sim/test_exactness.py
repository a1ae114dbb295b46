"""What the closed form promises over minutes of ticks: energy, arcs of any radius, any cut of the time."""

import math

import pytest
import torch

from navrl.envs.combat.sim.advance import advance
from navrl.envs.combat.sim.flight import Motion, fly, renormalised
from tests.envs.combat.sim.duels import opening, orders, shipped_params

FIGHTER, MISSILE = shipped_params().fighter, shipped_params().missile
DRAG, FULL_DRAG = 9.8 / 400.0**2, 2.245153e-4  # of the fighter: straight, and at full rudder


def start(speed_mps, dtype=torch.float32):
    """Bodies at the origin that point along x."""
    speed_mps = torch.tensor(speed_mps, dtype=dtype)
    zero = torch.zeros_like(speed_mps)
    return Motion(zero, zero.clone(), zero + 1.0, zero.clone(), speed_mps)


def flown(body, motion, rudder, throttle, steps_s):
    """The motion after these steps."""
    rudder = torch.full_like(motion.x_m, rudder)
    thrust_mps2 = torch.full_like(motion.x_m, throttle * body.thrust_mps2)
    for step_s in steps_s:
        motion = renormalised(fly(body, motion, rudder, thrust_mps2, step_s))
    return motion


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("rudder", "throttle"), [(0.0, 1.0), (1.0, 1.0), (-1.0, 0.4)])
def test_speed_squared_nears_its_limit_exponentially_with_the_path(dtype, rudder, throttle):
    # dv/dt = T - c v^2 and ds/dt = v give d(v^2)/ds = 2 T - 2 c v^2: energy in, less what drag takes.
    c = FULL_DRAG if rudder else DRAG
    limit = throttle * 14.7 / c
    before = start([150.0, 300.0, 520.0], torch.float64)
    motion = Motion(*(field.to(dtype) for field in before))
    path_m = torch.zeros(3, dtype=torch.float64)
    for _ in range(300):
        after = flown(FIGHTER, motion, rudder, throttle, [0.1])
        chord_m = torch.hypot((after.x_m - motion.x_m).double(), (after.y_m - motion.y_m).double())
        path_m += 2000.0 * torch.asin(chord_m / 2000.0) if rudder else chord_m
        motion = after
    expected = limit + (before.speed_mps**2 - limit) * torch.exp(-2.0 * c * path_m)
    close = 2e-7 if dtype == torch.float64 else 2e-5
    assert (motion.speed_mps.double() ** 2).tolist() == pytest.approx(expected.tolist(), rel=close)


@pytest.mark.parametrize("tick_s", [0.01, 0.1, 0.25])
def test_the_steady_speed_is_steady_at_any_physics_step(tick_s):
    steady = [
        (0.0, 1.0, 489.898),  # 400 sqrt(1.5)
        (0.0, 0.5, 346.410),  # 400 sqrt(0.75)
        (1.0, 1.0, 255.880),  # sqrt(14.7 / 2.245153e-4)
        (-1.0, 0.5, 180.934),  # sqrt(7.35 / 2.245153e-4)
        (0.5, 1.0, 379.505),  # drag 6.125e-5 + 163.2653 / 4e6 = 1.0206633e-4: sqrt(14.7 / that)
    ]
    rudder, throttle, _ = (torch.tensor(column) for column in zip(*steady, strict=True))
    params = shipped_params(tick_s=tick_s)
    envs = [(0.0, 0.0, 30.0, speed_mps) for *_, speed_mps in steady]
    state = opening(params, envs, [(1e6, 0.0, 0.0, 300.0)] * len(steady))
    for _ in range(10):
        state, _ = advance(
            params, state, orders(state, rudder.expand(2, -1), throttle.expand(2, -1))
        )
    # float32 may round by one unit in each of the 1000 finest ticks; Euler's method gains 3 % at 0.1 s.
    found = state.aircraft.motion.speed_mps[0].tolist()
    assert found == pytest.approx([speed_mps for *_, speed_mps in steady], rel=2e-4)


@pytest.mark.parametrize("body", [FIGHTER, MISSILE], ids=["fighter", "missile"])
@pytest.mark.parametrize(("rudder", "radius_m"), [(1.0, 1000.0), (-0.5, -2000.0), (0.1, 10_000.0)])
def test_the_circle_is_the_turn_radius_over_the_rudder_either_way(body, rudder, radius_m):
    motion = start([200.0, 450.0])
    for _ in range(150):
        motion = flown(body, motion, rudder, 1.0, [0.1])
        # Along x from the origin, positive to the left: the centre is (0, radius).
        distance_m = torch.hypot(motion.x_m, motion.y_m - radius_m)
        assert distance_m.tolist() == pytest.approx([abs(radius_m)] * 2, abs=0.1)


@pytest.mark.parametrize("body", [FIGHTER, MISSILE], ids=["fighter", "missile"])
@pytest.mark.parametrize("throttle", [0.0, 1.0])
@pytest.mark.parametrize("rudder", [0.0, -0.6, 1.0])
def test_any_cut_of_two_seconds_ends_at_the_same_place(body, throttle, rudder):
    cuts = [[0.25] * 8, [0.01] * 200, [0.25, 0.05] * 6 + [0.2], [0.01, 0.09] * 20]
    ends = [flown(body, start([200.0, 480.0]), rudder, throttle, cut) for cut in cuts]
    for end in ends[1:]:
        for found, other, close in zip(end, ends[0], [0.02, 0.02, 3e-5, 3e-5, 5e-3], strict=True):
            assert found.tolist() == pytest.approx(other.tolist(), abs=close)


@pytest.mark.parametrize("rudder", [0.0, 0.3, -1.0])
def test_twenty_seconds_of_ticks_are_one_arc(rudder):
    # tanh and log cosh of the whole time; ticks in float32 stay within 5 cm of it after 8 km.
    c = DRAG + 163.26530612 * rudder**2 / 1e6
    top, rate = math.sqrt(14.7 / c), math.sqrt(14.7 * c)
    grown = math.cosh(20.0 * rate) + 300.0 / top * math.sinh(20.0 * rate)
    path_m = math.log(grown) / c
    turn = rudder * path_m / 1000.0
    x_m = 1000.0 / rudder * math.sin(turn) if rudder else path_m
    y_m = 1000.0 / rudder * (1.0 - math.cos(turn)) if rudder else 0.0
    end = flown(FIGHTER, start([300.0]), rudder, 1.0, [0.1] * 200)
    assert math.hypot(end.x_m.item() - x_m, end.y_m.item() - y_m) < 0.05


@pytest.mark.parametrize("tick_s", [0.02, 0.25])
def test_a_missile_flies_the_exact_rows_to_a_thousandth(tick_s):
    # Launched at 200 and at 300 m/s; ten seconds of thrust by tanh and log cosh, then v / (1 + c v t).
    distance_m = {
        5: (2678, 3113),
        10: (7944, 8640),
        20: (17101, 18003),
        30: (22932, 23915),
        60: (33421, 34493),
    }
    speed_mps = {
        5: (836.7, 906.8),
        10: (1228.1, 1264.3),
        20: (700.9, 712.5),
        30: (490.4, 496.0),
        60: (257.9, 259.5),
    }
    motion = start([200.0, 300.0])
    for second in range(1, 61):
        motion = flown(MISSILE, motion, 0.0, float(second <= 10), [tick_s] * round(1.0 / tick_s))
        if second in distance_m:
            assert motion.x_m.tolist() == pytest.approx(distance_m[second], rel=1e-3)
            assert motion.speed_mps.tolist() == pytest.approx(speed_mps[second], rel=1e-3)
