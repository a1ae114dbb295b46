"""Print no-escape ranges by the space-time graph and by simulated shots: the table of docs/spacetime.md.

.venv/bin/python scripts/no_escape_table.py
"""

import sys

import torch

from navrl.config.compose import build, compose
from navrl.envs.combat.sim.advance import advance
from navrl.envs.combat.sim.flight import Motion
from navrl.envs.combat.sim.geometry import aircraft
from navrl.envs.combat.sim.params import CombatParams
from navrl.envs.combat.sim.prediction import LEFT, RIGHT, Steered, escape_line
from navrl.envs.combat.sim.reach import reach_table
from navrl.envs.combat.sim.spacetime import margins
from navrl.envs.combat.sim.state import Action, CombatState, initial_state
from timing import parser

# Speed of the shooter and of the target, bearing of the target off the shooter's nose, and of the shooter
# off the target's nose.
CASES = [
    *((300.0, 300.0, 0.0, aspect) for aspect in (0.0, 45.0, 90.0, 135.0, 180.0)),
    *((own, target, 0.0, 0.0) for own, target in ((200.0, 300.0), (400.0, 300.0), (300.0, 400.0))),
    (450.0, 450.0, 0.0, 0.0),
    *((300.0, 300.0, bearing, 0.0) for bearing in (30.0, 60.0, 90.0)),
]
RANGES_M = torch.arange(8000.0, 22000.0, 50.0)
FLIGHT_S = 60


def main() -> int:
    """Print the table."""
    parser(__doc__).parse_args()
    params = build(compose("train", ["env=combat", "env.sim.decision_s=0.1"]).env.sim).checked()
    print("| shooter, m/s | target, m/s | target off the nose | shooter off its nose ", end="")
    print("| graph, km | simulated, km | graph / simulated |\n|---|---|---|---|---|---|---|")
    for own, target, bearing, aspect in CASES:
        state = initial_state(params, opening(own, target, bearing, aspect))
        graph_m = longest(caught_by_graph(params, state))
        simulated_m = longest(hit(params, state, LEFT) & hit(params, state, RIGHT))
        ratio = graph_m / simulated_m
        print(f"| {own:.0f} | {target:.0f} | {bearing:.0f} deg | {aspect:.0f} deg", end=" | ")
        print(f"{graph_m / 1e3:.2f} | {simulated_m / 1e3:.2f} | {ratio:.3f} |", flush=True)
    return 0


def opening(own: float, target: float, bearing_deg: float, aspect_deg: float) -> Motion:
    """Place the shooter along x and the target at every range of RANGES_M; fields (2, N)."""
    zero = torch.zeros_like(RANGES_M)
    bearing = torch.deg2rad(torch.tensor(bearing_deg))
    heading = torch.deg2rad(torch.tensor(bearing_deg + 180.0 - aspect_deg))
    return Motion(
        x_m=torch.stack([zero, RANGES_M * torch.cos(bearing)]),
        y_m=torch.stack([zero, RANGES_M * torch.sin(bearing)]),
        cos_heading=torch.stack([zero + 1.0, zero + torch.cos(heading)]),
        sin_heading=torch.stack([zero, zero + torch.sin(heading)]),
        speed_mps=torch.stack([zero + own, zero + target]),
    )


def caught_by_graph(params: CombatParams, state: CombatState) -> torch.Tensor:
    """Return the ranges (N,) at which the graph sees no way out."""
    target = Steered(aircraft(state, 1), state.aircraft.rudder[1], state.aircraft.throttle[1])
    found = margins(params, reach_table(params), aircraft(state, 0), target)
    return torch.maximum(found.left_m, found.right_m) < 0.0


def hit(params: CombatParams, state: CombatState, side: float) -> torch.Tensor:
    """Return the ranges (N,) at which a missile hits a target that flies the escape line to one side."""
    line = escape_line(params.fighter, aircraft(state, 1), aircraft(state, 0), side)
    found = torch.zeros_like(RANGES_M, dtype=torch.bool)
    throttle = torch.ones_like(state.aircraft.rudder)
    for number in range(round(FLIGHT_S / params.step_s)):
        part = ((line.turn_s - number * params.step_s) / params.step_s).clamp(0.0, 1.0)
        rudder = torch.stack([torch.zeros_like(part), line.rudder * part])
        fire = torch.zeros_like(state.aircraft.alive)
        fire[0] = number == 0
        state, events = advance(params, state, Action(rudder, throttle, fire))
        found = found | events.hit[0]
    return found


def longest(caught: torch.Tensor) -> float:
    """Return the greatest range at which it is caught."""
    return RANGES_M[caught].max().item()


if __name__ == "__main__":
    sys.exit(main())
