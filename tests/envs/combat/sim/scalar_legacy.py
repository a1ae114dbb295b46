"""The original's fight in plain Python floats: velocity vectors, Euler steps, angles of the line of sight.

Launches, rounds and the end of a fight are those of `scalar_combat`; what moves, steers and hits is not.
"""

import math
from dataclasses import dataclass

from tests.envs.combat.sim.scalar_combat import Fight

GAIN = 200.0 / 180.0  # rudder per degree a second


@dataclass
class Vehicle:
    x: float
    y: float
    vx: float
    vy: float

    @property
    def v(self):
        return math.hypot(self.vx, self.vy)

    @property
    def psi(self):
        return math.atan2(self.vy, self.vx)

    def flown(self, kind, rudder, thrust, dt):
        """Acceleration from the old velocity, position from the new one."""
        parasite = 9.8 / kind.terminal_speed_mps**2
        induced = 1.0 / (4.0 * parasite * kind.lift_to_drag**2)
        lift = rudder / kind.turn_radius_m
        along = thrust - (parasite + induced * lift**2) * self.v**2
        left = lift * self.v**2
        ahead_x, ahead_y = self.vx / self.v, self.vy / self.v
        vx = self.vx + (along * ahead_x - left * ahead_y) * dt
        vy = self.vy + (along * ahead_y + left * ahead_x) * dt
        return Vehicle(self.x + vx * dt, self.y + vy * dt, vx, vy)


@dataclass
class Shot:
    carrier: int
    target: int
    vehicle: Vehicle
    sight_deg: float  # a tick ago
    age: int = 0
    flying: bool = True


def sight_deg(missile, prey):
    """Direction of the line of sight."""
    return math.degrees(math.atan2(prey.y - missile.y, prey.x - missile.x))


class LegacyFight(Fight):
    """A fight of Vehicles."""

    def _launch(self, me, wish, events):
        before = len(self.missiles)
        super()._launch(me, wish, events)
        if len(self.missiles) == before:
            return
        shot, own = self.missiles.pop(), self.aircraft[me]
        vehicle = Vehicle(shot.vehicle.x, shot.vehicle.y, own.vx, own.vy)
        sight = sight_deg(vehicle, self.aircraft[shot.target])
        self.missiles.append(Shot(me, shot.target, vehicle, sight))

    def _tick(self, rudders, throttles, events):
        p, was_alive, flying = self.params, list(self.alive), self.in_the_air()
        steered = {
            id(shot): self._steered(shot, was_alive) for shot in flying
        }  # before anybody moves
        for me, lives in enumerate(was_alive):
            if lives:
                thrust = throttles[me] * p.fighter.thrust_mps2
                self.aircraft[me] = self.aircraft[me].flown(p.fighter, rudders[me], thrust, p.dt_s)
        for shot in flying:
            thrust = p.missile.thrust_mps2 if shot.age * p.dt_s < p.burn_time_s - 1e-6 else 0.0
            shot.vehicle = shot.vehicle.flown(p.missile, steered[id(shot)], thrust, p.dt_s)
            shot.age += 1
            self._end(shot, was_alive[shot.target], events)

    def _steered(self, shot, was_alive):
        """The rudder of a missile; it remembers the line of sight."""
        now = sight_deg(shot.vehicle, self.aircraft[shot.target])
        turn = (now - shot.sight_deg + 180.0) % 360.0 - 180.0
        shot.sight_deg = now
        wanted = GAIN * turn / self.params.dt_s
        return max(-1.0, min(1.0, wanted)) if was_alive[shot.target] else 0.0

    def _end(self, shot, prey_lived, events):
        """A point near the target, or too slow, burning or not, or too old."""
        p, prey = self.params, self.aircraft[shot.target]
        miss = math.hypot(prey.x - shot.vehicle.x, prey.y - shot.vehicle.y)
        if prey_lived:
            self.tightest_m = min(self.tightest_m, abs(miss - p.hit_radius_m))
        if prey_lived and miss < p.hit_radius_m:
            shot.flying = self.alive[shot.target] = False
            events["hit"].add(shot.carrier)
            events["killed"].add(shot.target)
        elif (
            shot.vehicle.v < p.self_destruct_speed_mps
            or shot.age * p.dt_s + 1e-6 >= p.max_missile_age_s
        ):
            shot.flying = False
            events["missed"].add(shot.carrier)
            events["defeated"] |= {shot.target} if prey_lived else set()
