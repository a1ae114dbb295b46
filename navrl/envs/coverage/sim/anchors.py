"""Rewards at random places and at the best places that a search has found, to normalise scores by.

Rewards are per step of five drones and fifty users, by the channel and the placement of the users. The search
is the cross-entropy method over the drones' places, one layout at a time, so "best" is a bound from below.
"""

from typing import NamedTuple

from navrl.envs.coverage.sim.backhaul import Backhaul
from navrl.envs.coverage.sim.params import CoverageParams
from navrl.envs.coverage.sim.radio import Radio


class Anchors(NamedTuple):
    """The rewards that a normalised score maps to 0 and 1."""

    random: float
    best: float


_MEASURED = {  # by relayed, channel and users
    (False, "free_space", "uniform"): Anchors(0.278, 0.681),
    (False, "free_space", "hotspot"): Anchors(0.206, 0.606),
    (False, "urban", "uniform"): Anchors(0.478, 0.808),
    (False, "urban", "hotspot"): Anchors(0.378, 0.752),
    (False, "3gpp", "uniform"): Anchors(0.496, 0.925),
    (False, "3gpp", "hotspot"): Anchors(0.370, 0.821),
    (True, "free_space", "uniform"): Anchors(0.490, 0.850),
    (True, "free_space", "hotspot"): Anchors(0.423, 0.792),
    (True, "urban", "uniform"): Anchors(0.690, 0.941),
    (True, "urban", "hotspot"): Anchors(0.601, 0.939),
    (True, "3gpp", "uniform"): Anchors(0.704, 1.017),
    (True, "3gpp", "hotspot"): Anchors(0.587, 0.943),
}
_ALONE = {"coverage": 0.7, "quality": 0.3, "height": -0.1}
_RELAYED = {
    "coverage": 0.4,
    "quality": 0.2,
    "connectivity": 0.2,
    "throughput": 0.2,
    "path_length": -0.1,
}
_RADIO = Radio("", "none", 2.4e9, 2.0e7, 20.0, -104.0, 0.0, 10)
_ORIGINAL = Backhaul(((500.0, 500.0, 30.0),), 20.0, 30.0, 0.0, 3, "original", False, False)


def anchors(params: CoverageParams, weights: dict[str, float]) -> Anchors | None:
    """Return the anchors of a simulator and reward for which they were measured, else None."""
    relayed = isinstance(params.backhaul, Backhaul)
    sizes = (params.num_drones, params.num_users, params.side_m, *params.height_m)
    as_measured = (
        sizes == (5, 50, 1000.0, 50.0, 150.0)
        and params.radio._replace(channel="") == _RADIO
        and not params.walking
        and weights == (_RELAYED if relayed else _ALONE)
        and (not isinstance(params.backhaul, Backhaul) or _plain(params.backhaul) == _ORIGINAL)
    )
    return _MEASURED.get((relayed, params.radio.channel, params.users)) if as_measured else None


def _plain(backhaul: Backhaul) -> Backhaul:
    """Return the same with stations as tuples of floats, which can be compared."""
    places = tuple(tuple(float(at) for at in place) for place in backhaul.stations)
    return backhaul._replace(stations=places)
