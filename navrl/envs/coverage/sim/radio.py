"""Radio links from above: path loss, interference, and the drone that serves each user. Rows are (n, m, N).

n drones share a band and serve m users on the ground. Powers are in dBm, ratios in dB, lengths in metres.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from navrl.config.checks import require, require_choice, require_number, require_whole
from navrl.envs.core.reductions import sum_rows

CHANNELS = ("free_space", "urban", "suburban", "3gpp")
SHADOWINGS = ("none", "per_episode")
LEAST_M = 1e-6  # the shortest distance that counts
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
        """Return True if links have random gains beside the loss of their length."""
        return self.shadowing != "none"

    def checked(self) -> "Radio":
        """Return the same constants; raise ConfigError about the first one that cannot be."""
        place = "env.sim.radio."
        require_choice(f"{place}channel", self.channel, CHANNELS)
        require_choice(f"{place}shadowing", self.shadowing, SHADOWINGS)
        fits = self.channel == "3gpp" or not self.shadowed
        require(fits, f"{place}shadowing", self.shadowing, "none, unless the channel is 3gpp")
        for name in ("carrier_hz", "bandwidth_hz"):
            require_number(f"{place}{name}", getattr(self, name), above=0.0)
        for name in ("power_dbm", "noise_dbm", "min_sinr_db"):
            require_number(f"{place}{name}", getattr(self, name), least=-200.0, most=200.0)
        require_whole(f"{place}max_users", self.max_users, 1, 1_000_000)
        return self


def free_space_constant_db(carrier_hz: float) -> float:
    """Return the path loss of free space at one metre."""
    return 20.0 * math.log10(4.0 * math.pi * carrier_hz / _LIGHT_MPS)


def path_loss_db(
    radio: Radio, distance_m: Tensor, level_m: Tensor, height_m: Tensor, shadow: Tensor
) -> Tensor:
    """Return the path loss of links of this length, horizontal length and height.

    `shadow` holds standard normal numbers (2, ...), or no rows without shadowing.
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


def received_mw(
    radio: Radio, square_m2: Tensor, level_m2: Tensor, height_m: Tensor, shadow: Tensor
) -> Tensor:
    """Return the power of links of this squared length, squared horizontal length, and height."""
    if radio.channel == "free_space":
        one_metre_dbm = radio.power_dbm - free_space_constant_db(radio.carrier_hz)
        return 10.0 ** (one_metre_dbm / 10.0) / square_m2.clamp_min(LEAST_M**2)
    loss_db = path_loss_db(radio, square_m2.sqrt(), level_m2.sqrt(), height_m, shadow)
    return ((radio.power_dbm - loss_db) * (1.0 / _DECIBELS)).exp()


def sinr(power_mw: Tensor, noise_dbm: float) -> Tensor:
    """Return signal to interference and noise of every link, a ratio; every drone disturbs all others."""
    noise_mw = torch.full_like(power_mw[0], 10.0 ** (noise_dbm / 10.0))
    before, after = [noise_mw], [torch.zeros_like(noise_mw)]  # never a difference: it would cancel
    for number in range(power_mw.shape[0] - 1):
        before.append(before[-1] + power_mw[number])
        after.append(after[-1] + power_mw[-1 - number])
    return power_mw / (torch.stack(before) + torch.stack(after[::-1]))


class Association(NamedTuple):
    """The serving drone of every user, fields (m, N)."""

    server: Tensor  # int32, the number of the drone, -1: none
    sinr: Tensor  # of the link to it, a ratio; 0 without one


def associate(sinr: Tensor, *, min_sinr_db: float, max_users: int) -> Association:
    """Return the stable matching of users and drones: no user and drone prefer each other to their partners.

    Free users apply to the best drone that would accept them, and it keeps its best ones. Every chain of
    refusals visits a drone once, so n passes suffice, and one if only one drone can be above the noise.
    """
    drones, users, envs = sinr.shape
    passes, least = 1 if min_sinr_db >= 0.0 else drones, 10.0 ** (min_sinr_db / 10.0)
    found = Association(
        torch.full((users, envs), -1, dtype=torch.int32, device=sinr.device),
        torch.zeros_like(sinr[0]),
    )
    bar = torch.full_like(sinr[:, 0], -torch.inf)  # (n, N), the worst link of a full drone
    for number in range(passes):
        applied = found
        for drone in range(drones):
            level = sinr[drone]
            takes = (level >= least) & (level > bar[drone]) & (found.server < 0)
            better = takes & (level > applied.sinr)
            applied = Association(
                torch.where(better, drone, applied.server).to(torch.int32),
                torch.where(better, level, applied.sinr),
            )
        rank = _ranks(applied)
        kept = (applied.server >= 0) & (rank < max_users)
        found = Association(
            torch.where(kept, applied.server, -1), torch.where(kept, applied.sinr, 0.0)
        )
        if number + 1 < passes:
            bar = _thresholds(found, rank, drones, max_users)
    return found


def quality(radio: Radio, level: Tensor) -> Tensor:
    """Return the margin of links of this signal to noise over the least usable one, 0 to 1."""
    level_db = _DECIBELS * level.log()
    return ((level_db - radio.min_sinr_db) * (1.0 / _QUALITY_SPAN_DB)).clamp(0.0, 1.0)


def capacity_mbps(radio: Radio, level: Tensor) -> Tensor:
    """Return the capacity of links of this signal to noise that have the whole band."""
    return (radio.bandwidth_hz * 1e-6 / math.log(2.0)) * level.log1p()


def of_each_drone(server: Tensor, drones: int, values: Tensor) -> Tensor:
    """Return the sums (n, N) of the values (m, N) of every drone's users."""
    every = torch.arange(drones, dtype=torch.int32, device=server.device).unsqueeze(-1)
    return sum_rows(torch.where(server.unsqueeze(1) == every, values.unsqueeze(1), 0.0))


def _ranks(applied: Association) -> Tensor:
    """Return how many users at the same drone are better, or as good and earlier; int32 (m, N)."""
    server, level = applied
    rank = torch.zeros_like(server)
    number = torch.arange(server.shape[0], device=server.device).unsqueeze(-1)
    for other in range(server.shape[0]):
        ahead = (level[other] > level) | ((level[other] == level) & (number > other))
        rank = rank + ((server[other] == server) & ahead).to(torch.int32)
    return rank


def _thresholds(found: Association, rank: Tensor, drones: int, max_users: int) -> Tensor:
    """Return the worst link of every full drone, -inf for the others, (n, N)."""
    last = torch.where(rank == max_users - 1, found.sinr, -torch.inf)
    worst = [
        torch.where(found.server == drone, last, -torch.inf).amax(0) for drone in range(drones)
    ]
    return torch.stack(worst)
