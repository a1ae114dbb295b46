"""One fight in plain Python floats: slow, obvious, and written from the rules alone.

Angles instead of unit vectors, tanh and log1p instead of series, one object per vehicle.
"""

import math
from dataclasses import dataclass, field


@dataclass
class Vehicle:
    x: float
    y: float
    psi: float
    v: float

    def flown(self, kind, rudder, thrust, dt):
        """The vehicle after dt on one arc."""
        drag = 9.8 / kind.terminal_speed_mps**2
        bend = rudder / kind.turn_radius_m
        c = drag + bend**2 / (4.0 * drag * kind.lift_to_drag**2)
        if thrust > 0.0:
            top, rate = math.sqrt(thrust / c), math.sqrt(thrust * c)
            t = math.tanh(rate * dt)
            v = top * (self.v + top * t) / (top + self.v * t)
            growth = 2.0 * math.sinh(rate * dt / 2) ** 2 + self.v / top * math.sinh(rate * dt)
            path = math.log1p(growth) / c
        else:
            v = self.v / (1.0 + c * self.v * dt)
            path = math.log1p(c * self.v * dt) / c
        half = bend * path / 2.0
        chord = path * (math.sin(half) / half if half else 1.0)
        return Vehicle(
            self.x + chord * math.cos(self.psi + half),
            self.y + chord * math.sin(self.psi + half),
            self.psi + 2.0 * half,
            v,
        )


@dataclass
class Missile:
    carrier: int
    target: int
    vehicle: Vehicle
    age: int = 0
    flying: bool = True


@dataclass
class Fight:
    """The whole fight; `advance` changes it and returns the events of the decision."""

    params: object
    aircraft: list
    alive: list = field(default_factory=list)
    rounds: list = field(default_factory=list)
    missiles: list = field(default_factory=list)
    tightest_m: float = math.inf  # distance of the closest call from the hit radius

    def __post_init__(self):
        self.alive = [True] * len(self.aircraft)
        self.rounds = [self.params.ammunition] * len(self.aircraft)

    def enemies(self, me):
        teams = self.params.teams
        return [i for i in range(len(teams)) if teams[i] != teams[me]]

    def in_the_air(self, carrier=None):
        return [m for m in self.missiles if m.flying and carrier in (None, m.carrier)]

    def over(self):
        sides = {t for t, lives in zip(self.params.teams, self.alive, strict=True) if lives}
        armed = any(a and r for a, r in zip(self.alive, self.rounds, strict=True))
        return len(sides) < 2 or not (armed or self.in_the_air())

    def advance(self, rudders, throttles, fires):
        """One decision; sets of aircraft that launched, hit, were killed, missed, defeated."""
        events = {name: set() for name in ("launched", "hit", "killed", "missed", "defeated")}
        if not self.over():
            for me, wish in enumerate(fires):
                self._launch(me, wish, events)
        for _ in range(round(self.params.step_s / self.params.dt_s)):
            if not self.over():
                self._tick(rudders, throttles, events)
        return events

    def _launch(self, me, wish, events):
        full = len(self.in_the_air(me)) >= self.params.channels
        if not wish or not self.alive[me] or self.rounds[me] <= 0 or full:
            return
        own, offset = self.aircraft[me], self.params.launch_offset_m
        vehicle = Vehicle(
            own.x + offset * math.cos(own.psi), own.y + offset * math.sin(own.psi), own.psi, own.v
        )
        living = [e for e in self.enemies(me) if self.alive[e]]
        target = min(living, key=lambda e: math.dist(*map(self._place, (own, self.aircraft[e]))))
        self.missiles.append(Missile(me, target, vehicle))
        self.rounds[me] -= 1
        events["launched"].add(me)

    def _tick(self, rudders, throttles, events):
        p, before, was_alive = self.params, list(self.aircraft), list(self.alive)
        for me, lives in enumerate(was_alive):
            if lives:
                thrust = throttles[me] * p.fighter.thrust_mps2
                self.aircraft[me] = before[me].flown(p.fighter, rudders[me], thrust, p.dt_s)
        for shot in self.in_the_air():
            prey, lives = before[shot.target], was_alive[shot.target]
            rudder = self._guidance(shot.vehicle, prey) if lives else 0.0
            thrust = p.missile.thrust_mps2 if shot.age * p.dt_s < p.burn_time_s - 1e-6 else 0.0
            moved = shot.vehicle.flown(p.missile, rudder, thrust, p.dt_s)
            miss = _closest(shot.vehicle, prey, moved, self.aircraft[shot.target])
            shot.vehicle, shot.age = moved, shot.age + 1
            if lives:
                self.tightest_m = min(self.tightest_m, abs(miss - p.hit_radius_m))
            if lives and miss < p.hit_radius_m:
                shot.flying = self.alive[shot.target] = False
                events["hit"].add(shot.carrier)
                events["killed"].add(shot.target)
            elif self._spent(shot):
                shot.flying = False
                events["missed"].add(shot.carrier)
                events["defeated"] |= {shot.target} if lives else set()

    def _guidance(self, missile, prey):
        x, y = prey.x - missile.x, prey.y - missile.y
        vx = prey.v * math.cos(prey.psi) - missile.v * math.cos(missile.psi)
        vy = prey.v * math.sin(prey.psi) - missile.v * math.sin(missile.psi)
        rate = (x * vy - y * vx) / max(x * x + y * y, 1.0)
        gain = self.params.navigation_gain * self.params.missile.turn_radius_m
        return max(-1.0, min(1.0, gain * rate / max(missile.v, 1.0)))

    def _spent(self, shot):
        age_s = shot.age * self.params.dt_s + 1e-6
        slow = shot.vehicle.v < self.params.self_destruct_speed_mps
        return (age_s >= self.params.burn_time_s and slow) or age_s >= self.params.max_missile_age_s

    @staticmethod
    def _place(vehicle):
        return vehicle.x, vehicle.y


def _closest(missile, prey, missile_after, prey_after):
    """Least distance while both move evenly along the chords of the tick."""
    x, y = prey.x - missile.x, prey.y - missile.y
    dx, dy = prey_after.x - missile_after.x - x, prey_after.y - missile_after.y - y
    square = dx * dx + dy * dy
    part = max(0.0, min(1.0, -(x * dx + y * dy) / square)) if square else 0.0
    return math.hypot(x + part * dx, y + part * dy)
