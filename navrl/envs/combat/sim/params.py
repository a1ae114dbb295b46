"""The constants of a simulation of air combat, and the checks of them."""

import math
import operator
from typing import Any, NamedTuple

from navrl.config.checks import require, require_choice, require_number, require_whole
from navrl.envs.combat.sim.flight import Airframe, check_step

UNLIMITED = 1 << 30  # rounds; never counted down to zero
MODELS = ("exact", "legacy")
GUIDANCE_LAWS = ("proportional", "legacy_gain")
CHANNEL_MODES = ("block", "recycle")
MAX_TEAM_SIZE = 8
MAX_CHANNELS = 16
MAX_TICKS = 1000  # per decision; more is a slip in a unit, and would not end


class CombatParams(NamedTuple):
    """Constants as Python numbers, so that a compiled step folds them in."""

    model: str  # exact: arcs and swept hits | legacy: the original's Euler steps, point hits and guidance
    fighter: Airframe
    missile: Airframe
    team_size: int  # aircraft on each of the two sides
    channels: int  # missiles one aircraft can have in the air
    channel_mode: str  # block: no launch if all are taken | recycle: the oldest missile gives way
    ammunition: int | None  # rounds per aircraft, None: unlimited
    cooldown_decisions: int  # decisions after a launch in which the trigger is dead
    burn_time_s: float
    launch_offset_m: float
    hit_radius_m: float
    self_destruct_speed_mps: float  # below it a missile without thrust ends
    max_missile_age_s: float
    guidance_law: str  # proportional | legacy_gain
    navigation_gain: float
    retarget: bool  # a missile whose target died turns to the nearest enemy, else it flies straight
    resolve_in_flight: bool  # after the last kill flying missiles still count: a trade is a draw
    rudder_rate_per_s: float | None  # how fast the rudder moves, None: at once
    decision_s: float  # time between two actions at time_scale 1
    time_scale: float  # stretches the decision, never the tick
    tick_s: float  # longest physics step
    time_limit_s: float
    # Beyond it, with nothing in the air, an episode is cut; None: never.
    disengage_range_m: float | None

    @property
    def teams(self) -> tuple[int, ...]:
        """Team of each aircraft: the first team_size fly for team 0."""
        return (0,) * self.team_size + (1,) * self.team_size

    @property
    def ticks(self) -> int:
        """Physics steps per decision."""
        return math.ceil(self.decision_s * self.time_scale / self.tick_s - 1e-9)

    @property
    def dt_s(self) -> float:
        """Physics step."""
        return self.decision_s * self.time_scale / self.ticks

    @property
    def step_s(self) -> float:
        """Game time per decision."""
        return self.decision_s * self.time_scale

    @property
    def max_decisions(self) -> int:
        """Decisions after which the time limit is reached."""
        return math.ceil(self.time_limit_s / self.step_s - 1e-9)

    @property
    def burn_ticks(self) -> int:
        """Ticks with thrust after a launch."""
        return round(self.burn_time_s / self.dt_s)

    @property
    def max_age_ticks(self) -> int:
        """Ticks after which any missile ends."""
        return round(self.max_missile_age_s / self.dt_s)

    @property
    def rounds(self) -> int:
        """Ammunition at the start of an episode."""
        return UNLIMITED if self.ammunition is None else self.ammunition

    def checked(self) -> "CombatParams":
        """Return self, or raise a ConfigError that names the impossible constant."""
        for name in _POSITIVE:
            require_number(f"env.sim.{name}", self._value(name), above=0.0)
        for name in _NOT_NEGATIVE:
            require_number(f"env.sim.{name}", self._value(name), least=0.0)
        for name in _POSITIVE_OR_NULL:
            value = self._value(name)
            require(value is None or value > 0.0, f"env.sim.{name}", value, "more than 0, or null")
        for name, (least, most) in _WHOLE.items():
            require_whole(f"env.sim.{name}", self._value(name), least, most)
        for name, known in _CHOICES.items():
            require_choice(f"env.sim.{name}", self._value(name), known)
        self._check_load_limits()
        self._check_ticks()
        unlimited = "1 or more, or null for unlimited"
        require(self.rounds >= 1, "env.sim.ammunition", self.ammunition, unlimited)
        return self

    def _value(self, name: str) -> Any:
        return operator.attrgetter(name)(self)

    def _check_load_limits(self) -> None:
        for name in ("fighter.max_load_g", "missile.max_load_g"):
            bearable = self._value(name) is None or self.model != "legacy"
            expected = "null with env.sim.model=legacy, whose airframes bear any load"
            require(bearable, f"env.sim.{name}", self._value(name), expected)

    def _check_ticks(self) -> None:
        longest_s = MAX_TICKS * self.tick_s / self.time_scale
        expected = f"at most {longest_s:g}, which is {MAX_TICKS} physics steps of env.sim.tick_s"
        few = self.step_s <= MAX_TICKS * self.tick_s
        require(few, "env.sim.decision_s", self.decision_s, expected)
        check_step(self.fighter, self.dt_s)
        check_step(self.missile, self.dt_s)


_AIRFRAMES = ("fighter", "missile")
_POSITIVE = (
    *("decision_s", "time_scale", "tick_s", "time_limit_s", "hit_radius_m"),
    *(f"{airframe}.terminal_speed_mps" for airframe in _AIRFRAMES),
    *(f"{airframe}.turn_radius_m" for airframe in _AIRFRAMES),
    *(f"{airframe}.lift_to_drag" for airframe in _AIRFRAMES),
)
_NOT_NEGATIVE = (
    *("cooldown_decisions", "burn_time_s", "launch_offset_m", "self_destruct_speed_mps"),
    *("max_missile_age_s", "navigation_gain"),
    *(f"{airframe}.thrust_mps2" for airframe in _AIRFRAMES),
)
_POSITIVE_OR_NULL = (
    *("rudder_rate_per_s", "disengage_range_m"),
    *(f"{airframe}.max_load_g" for airframe in _AIRFRAMES),
)
_WHOLE = {"channels": (1, MAX_CHANNELS), "team_size": (1, MAX_TEAM_SIZE)}
_CHOICES = {"model": MODELS, "channel_mode": CHANNEL_MODES, "guidance_law": GUIDANCE_LAWS}
