"""The network from drones to ground stations: connected drones, lengths of paths, and throughput.

These links are free space and undisturbed, so that distance alone decides about a connection.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from navrl.config.checks import require, require_choice, require_number, require_whole
from navrl.envs.core.reductions import sum_rows
from navrl.envs.coverage.sim.radio import LEAST_M, Radio, free_space_constant_db

_BEST_DB = 30.0  # of the excellent link that throughput is compared with
LENGTHS = ("links", "original")
_AXES = 3


class Network(NamedTuple):
    """The paths of all drones; no rows if users are served without ground stations."""

    direct: Tensor  # (S, n, N) bool, links to the stations
    length: Tensor  # (n, N), of the path to a station, 0: no path
    bottleneck_mbps: Tensor  # (n, N), of the path
    arriving_mbps: Tensor  # (n, N), of the traffic of its users


class Connection(Protocol):
    """The kind of connection to the ground."""

    @property
    def stations(self) -> Sequence[Sequence[float]]:
        """Return the places of the ground stations, metres."""

    def checked(self) -> "Connection":
        """Return the same constants; raise ConfigError about the first one that cannot be."""

    def connect(self, radio: Radio, position: Tensor, load: Tensor, rate_mbps: Tensor) -> Network:
        """Return the network of drones at position (3, n, N) with these users and traffic, (n, N)."""


class NoBackhaul:
    """No connection: drones that serve their users without the ground."""

    stations: Sequence[Sequence[float]] = ()

    def checked(self) -> "NoBackhaul":
        """Return itself."""
        return self

    def connect(self, radio: Radio, position: Tensor, load: Tensor, rate_mbps: Tensor) -> Network:
        """Return a network without rows."""
        nothing = load[:0]
        return Network(load.new_zeros(0, *load.shape, dtype=torch.bool), nothing, nothing, nothing)


class Backhaul(NamedTuple):
    """Drones that relay to ground stations."""

    stations: Sequence[Sequence[float]]  # places, metres
    drone_dbm: float  # power of links between drones
    station_dbm: float  # and of links to a station
    min_snr_db: float  # no link below it
    max_hops: int  # drones on a path
    length: str  # links: how many a path has | original: one more where it has several
    share_band: bool  # the users of a drone share its band
    clip: bool  # the value of the throughput is at most 1

    def checked(self) -> "Backhaul":
        """Return the same constants; raise ConfigError about the first one that cannot be."""
        place = "env.sim.backhaul."
        usable = len(self.stations) > 0 and all(len(at) == _AXES for at in self.stations)
        require(usable, f"{place}stations", self.stations, "one or more places [x, y, z]")
        for name in ("drone_dbm", "station_dbm", "min_snr_db"):
            require_number(f"{place}{name}", getattr(self, name), least=-200.0, most=200.0)
        require_whole(f"{place}max_hops", self.max_hops, 1, 32)
        require_choice(f"{place}length", self.length, LENGTHS)
        return self

    def connect(self, radio: Radio, position: Tensor, load: Tensor, rate_mbps: Tensor) -> Network:
        """Return every drone's shortest path to a station, and the traffic that arrives over it."""
        if self.share_band:
            rate_mbps = rate_mbps / load.clamp_min(1.0)
        direct, uplink_mbps = self._uplinks(radio, position)
        linked, carried_mbps = self._between(radio, position)
        hops, bottleneck_mbps = routes(uplink_mbps, linked, carried_mbps, max_hops=self.max_hops)
        length = hops if self.length == "links" else hops + (hops > 1.0).float()
        arriving = torch.minimum(rate_mbps, bottleneck_mbps / length.clamp_min(1.0))
        arriving = torch.where(hops > 0.0, arriving, 0.0)
        return Network(direct, length, bottleneck_mbps, arriving)

    def drone_links(self, radio: Radio, position: Tensor) -> Tensor:
        """Return the links between drones at position (3, n, N), bool (n, n, N)."""
        return self._between(radio, position)[0]

    def throughput(self, radio: Radio, arriving_mbps: Tensor, num_drones: int) -> Tensor:
        """Return every drone's part (n, N) in the value of the traffic that arrives from the whole team."""
        best_mbps = radio.bandwidth_hz * 1e-6 * math.log2(1.0 + 10.0 ** (_BEST_DB / 10.0))
        value = arriving_mbps * (1.0 / (best_mbps * num_drones))
        return value / sum_rows(value).clamp_min(1.0) if self.clip else value

    def _uplinks(self, radio: Radio, position: Tensor) -> tuple[Tensor, Tensor]:
        """Return the links (S, n, N) to stations, and the capacity (n, N) of the first of them, 0: none."""
        every, carried = [], torch.zeros_like(position[0])
        for place in reversed(self.stations):
            x, y, z = (row - at for row, at in zip(position, place, strict=True))
            linked, mbps = self._links(radio, (x, y, z), self.station_dbm)
            every.append(linked)
            carried = torch.where(linked, mbps, carried)
        return torch.stack(every[::-1]), carried

    def _between(self, radio: Radio, position: Tensor) -> tuple[Tensor, Tensor]:
        """Return the links between drones and their capacity, (n, n, N) each."""
        x, y, z = position.unsqueeze(2) - position.unsqueeze(1)
        return self._links(radio, (x, y, z), self.drone_dbm)

    def _links(
        self, radio: Radio, apart: tuple[Tensor, Tensor, Tensor], power_dbm: float
    ) -> tuple[Tensor, Tensor]:
        """Return the usable links among those with such distances, and the capacity of all."""
        one_metre_db = power_dbm - free_space_constant_db(radio.carrier_hz) - radio.noise_dbm
        x, y, z = apart
        square_m2 = (x.square() + y.square() + z.square()).clamp_min(LEAST_M**2)
        reach_m2 = 10.0 ** ((one_metre_db - self.min_snr_db) / 10.0)
        ratio = 10.0 ** (one_metre_db / 10.0) / square_m2
        return square_m2 <= reach_m2, (radio.bandwidth_hz * 1e-6 / math.log(2.0)) * ratio.log1p()


def routes(
    uplink_mbps: Tensor, linked: Tensor, carried_mbps: Tensor, *, max_hops: int
) -> tuple[Tensor, Tensor]:
    """Return the drones on every drone's shortest path to a station (n, N), 0: none, and its narrowest link.

    uplink_mbps (n, N) is 0 without a direct link, linked and carried_mbps are (n, n, N). Of several shortest
    paths it is the one that breadth-first search in the order of numbers finds.
    """
    hops = (uplink_mbps > 0.0).float()
    narrowest = uplink_mbps
    for level in range(2, max_hops + 1):
        reached, through = torch.zeros_like(hops), torch.zeros_like(narrowest)
        for mate in reversed(range(hops.shape[0])):
            next_hop = linked[:, mate] & (hops[mate] == level - 1.0)
            reached = torch.where(next_hop, 1.0, reached)
            path = torch.minimum(carried_mbps[:, mate], narrowest[mate])
            through = torch.where(next_hop, path, through)
        fresh = (hops == 0.0) & (reached > 0.0)
        narrowest = torch.where(fresh, through, narrowest)
        hops = torch.where(fresh, float(level), hops)
    return hops, narrowest
