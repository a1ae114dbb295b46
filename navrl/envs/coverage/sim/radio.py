"""Radio from above: path loss, interference, and which user is served by which drone. Rows are (n, m, N).

n drones share a band and serve m users on the ground. Powers are in dBm, ratios in dB, lengths in metres.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from navrl.envs.core.reductions import added
from navrl.envs.core.requirements import require, require_whole

CHANNELS = ("free_space", "urban", "suburban", "3gpp")
SHADOWINGS = ("none", "per_episode")
LEAST_M = 1e-6  # nobody is nearer
SHADOW_PARTS = 2  # with and without line of sight
_LIGHT_MPS = 3.0e8
_DECIBELS = 10.0 / math.log(10.0)  # of a factor e
_SHADOW_DB = (4.0, 8.0)  # standard deviations with and without line of sight
_QUALITY_SPAN_DB = 30.0


class Radio(NamedTuple):
    """The constants of the links to the users."""

    channel: str
    shadowing: str
    carrier_hz: float
    bandwidth_hz: float
    power_dbm: float  # of every drone
    noise_dbm: float
    min_sinr_db: float  # no link below it
    max_users: int  # of one drone

    @property
    def shadowed(self) -> bool:
        """Whether links are better or worse than their length says."""
        return self.shadowing != "none"

    def checked(self) -> "Radio":
        """The same, after a look at every number."""
        place = "env.sim.radio."
        names = " or ".join(CHANNELS)
        require(f"{place}channel", self.channel, self.channel in CHANNELS, names)
        known = self.shadowing in SHADOWINGS
        require(f"{place}shadowing", self.shadowing, known, " or ".join(SHADOWINGS))
        fits = self.channel == "3gpp" or not self.shadowed
        require(f"{place}shadowing", self.shadowing, fits, "none, unless the channel is 3gpp")
        for name in ("carrier_hz", "bandwidth_hz"):
            value = getattr(self, name)
            require(f"{place}{name}", value, 0.0 < value < math.inf, "a number more than 0")
        for name in ("power_dbm", "noise_dbm", "min_sinr_db"):
            value = getattr(self, name)
            require(f"{place}{name}", value, abs(value) <= 200.0, "a number from -200 to 200")
        require_whole(f"{place}max_users", self.max_users, 1, 1_000_000)
        return self


def free_space_constant_db(carrier_hz: float) -> float:
    """The path loss of free space at one metre."""
    return 20.0 * math.log10(4.0 * math.pi * carrier_hz / _LIGHT_MPS)


def path_loss_db(
    radio: Radio, distance_m: Tensor, level_m: Tensor, height_m: Tensor, shadow: Tensor
) -> Tensor:
    """Path loss of links of this length, horizontal length and height.

    `shadow` are standard normal numbers (2, ...), or has no rows where nothing is shadowed.
    """
    decades = distance_m.clamp_min(LEAST_M).log10()
    if radio.channel == "free_space":
        return 20.0 * decades + free_space_constant_db(radio.carrier_hz)
    if radio.channel == "urban":
        return 37.6 * decades + (128.1 - 3.0 * 37.6)
    if radio.channel == "suburban":
        return 35.0 * decades + (120.0 - 3.0 * 35.0)
    carrier_db = 20.0 * math.log10(radio.carrier_hz * 1e-9)
    elevation_deg = (height_m / level_m.clamp_min(LEAST_M)).atan() * (180.0 / math.pi)
    sight = 1.0 / (1.0 + 5.0 * (-0.6 * (elevation_deg - 5.0)).exp())  # probability of line of sight
    seen, hidden = 22.0 * decades + (28.0 + carrier_db), 41.0 * decades + (22.7 + carrier_db)
    if radio.shadowed:
        seen, hidden = seen + _SHADOW_DB[0] * shadow[0], hidden + _SHADOW_DB[1] * shadow[1]
    return sight * seen + (1.0 - sight) * hidden


def sinr_db(received_dbm: Tensor, noise_dbm: float) -> Tensor:
    """Signal to interference and noise of every link, when every drone disturbs all others."""
    power = (received_dbm * (1.0 / _DECIBELS)).exp()
    noise = torch.full_like(power[0], 10.0 ** (noise_dbm / 10.0))
    before, after = [noise], [torch.zeros_like(noise)]  # never a difference: it would cancel
    for number in range(power.shape[0] - 1):
        before.append(before[-1] + power[number])
        after.append(after[-1] + power[-1 - number])
    disturbance = torch.stack(before) + torch.stack(after[::-1])
    return _DECIBELS * (power / disturbance).log()


class Association(NamedTuple):
    """Who is served by whom, fields (m, N)."""

    server: Tensor  # int32, the number of the drone, -1: nobody's
    sinr_db: Tensor  # of the link to it; -inf without one


def associate(sinr: Tensor, *, min_sinr_db: float, max_users: int) -> Association:
    """The stable matching: no user and drone would both rather have each other.

    Free users ask the best drone that would take them, and it keeps its best. Every chain of refusals visits
    a drone once, so n rounds suffice; where only one drone can be above the noise of the others, one does.
    """
    drones, users, envs = sinr.shape
    rounds = 1 if min_sinr_db >= 0.0 else drones
    found = Association(
        torch.full((users, envs), -1, dtype=torch.int32, device=sinr.device),
        torch.full_like(sinr[0], -torch.inf),
    )
    bar = torch.full_like(sinr[:, 0], -torch.inf)  # (n, N), what a full drone's worst user has
    for turn in range(rounds):
        asked = found
        for drone in range(drones):
            level = sinr[drone]
            takes = (level >= min_sinr_db) & (level > bar[drone]) & (found.server < 0)
            better = takes & (level > asked.sinr_db)
            asked = Association(
                torch.where(better, drone, asked.server).to(torch.int32),
                torch.where(better, level, asked.sinr_db),
            )
        place = _places(asked)
        kept = (asked.server >= 0) & (place < max_users)
        found = Association(
            torch.where(kept, asked.server, -1), torch.where(kept, asked.sinr_db, -torch.inf)
        )
        if turn + 1 < rounds:
            bar = _bars(found, place, drones, max_users)
    return found


def quality(radio: Radio, level_db: Tensor) -> Tensor:
    """How much better than needed links are, 0 to 1."""
    return ((level_db - radio.min_sinr_db) * (1.0 / _QUALITY_SPAN_DB)).clamp(0.0, 1.0)


def capacity_mbps(radio: Radio, level_db: Tensor) -> Tensor:
    """What links carry that have the whole band."""
    ratio = (level_db * (1.0 / _DECIBELS)).exp()
    return (radio.bandwidth_hz * 1e-6 / math.log(2.0)) * ratio.log1p()


def of_each_drone(server: Tensor, drones: int, values: Tensor) -> Tensor:
    """Sums (n, N) of what the users (m, N) of every drone have."""
    every = torch.arange(drones, dtype=torch.int32, device=server.device).unsqueeze(-1)
    return added(torch.where(server.unsqueeze(1) == every, values.unsqueeze(1), 0.0))


def _places(asked: Association) -> Tensor:
    """How many that ask the same drone are better, or as good and earlier; int32 (m, N)."""
    server, level = asked
    place = torch.zeros_like(server)
    number = torch.arange(server.shape[0], device=server.device).unsqueeze(-1)
    for other in range(server.shape[0]):
        ahead = (level[other] > level) | ((level[other] == level) & (number > other))
        place = place + ((server[other] == server) & ahead).to(torch.int32)
    return place


def _bars(found: Association, place: Tensor, drones: int, max_users: int) -> Tensor:
    last = torch.where(place == max_users - 1, found.sinr_db, -torch.inf)
    worst = [
        torch.where(found.server == drone, last, -torch.inf).amax(0) for drone in range(drones)
    ]
    return torch.stack(worst)
