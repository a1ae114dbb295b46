"""A recorded fight as the data of its replay page."""

from typing import Any

from navrl.view.graphs import Draw, packed_graphs
from navrl.view.html import COMBAT, page
from navrl.view.recording import Flight, Recording, Track
from navrl.view.spacetime import SPEED_OF_SOUND_MPS

SIDES = ("Red", "Blue")

Pilots = tuple[str, str]  # who flies the sides


def fight_page(
    recorded: Recording, draw: Draw, *, title: str, subtitle: str, pilots: Pilots
) -> str:
    """The replay as one HTML file; `draw` makes the space-time graph of one aircraft."""
    data = fight_data(recorded, draw, title=title, subtitle=subtitle, pilots=pilots)
    return page(COMBAT, data)


def fight_data(
    recorded: Recording, draw: Draw, *, title: str, subtitle: str, pilots: Pilots
) -> dict[str, Any]:
    """What the page's scripts read."""
    params = recorded.params
    return {
        "title": title,
        "subtitle": subtitle,
        "sides": flown_by(pilots),
        "duration": recorded.times_s[-1],
        "winner": recorded.winner,
        "outcome": outcome(recorded),
        "turnRadius": params.fighter.turn_radius_m,
        "maxLoad": params.fighter.max_load_g,
        "burnTime": params.burn_time_s,
        "ammunition": params.ammunition,
        "speedOfSound": SPEED_OF_SOUND_MPS,
        "aircraft": [
            {
                "name": name,
                "side": record.team,
                "track": _track(record.track),
                "rudder": [round(rudder, 2) for rudder in record.rudder],
                "rounds": record.rounds,
                "died": record.died_s,
            }
            for name, record in zip(names(recorded), recorded.aircraft, strict=True)
        ],
        "missiles": [_missile(flight) for flight in recorded.flights],
        "events": [
            {"t": round(e.time_s, 2), "kind": e.kind, "aircraft": e.aircraft, "other": e.other}
            for e in recorded.events
        ],
        "graphs": packed_graphs(params, recorded.states, recorded.times_s, draw),
    }


def names(recorded: Recording) -> list[str]:
    """Red, Blue; in teams Red 1, Red 2, ..."""
    size = recorded.params.team_size
    return [
        SIDES[record.team] + (f" {index % size + 1}" if size > 1 else "")
        for index, record in enumerate(recorded.aircraft)
    ]


def flown_by(pilots: Pilots) -> list[str]:
    """As in 'Red: crank', for legends."""
    return [f"{side}: {pilot}" for side, pilot in zip(SIDES, pilots, strict=True)]


def outcome(recorded: Recording) -> str:
    """Who won and why, as in 'Red wins after 71.8 s: Blue is dead'."""
    after = f"after {recorded.times_s[-1]:.1f} s"
    if recorded.winner is None:
        return f"Draw {after}: {recorded.reason}"
    return f"{SIDES[recorded.winner]} wins {after}"


def _track(track: Track) -> dict[str, list[float]]:
    return {
        "t": [round(time_s, 2) for time_s in track.time_s],
        "x": [round(x_m, 1) for x_m in track.x_m],
        "y": [round(y_m, 1) for y_m in track.y_m],
        "h": [round(heading_rad, 4) for heading_rad in track.heading_rad],
        "v": [round(speed_mps, 1) for speed_mps in track.speed_mps],
    }


def _missile(flight: Flight) -> dict[str, Any]:
    return {
        "carrier": flight.carrier,
        "target": flight.target,
        "ending": flight.ending,
        "track": _track(flight.track),
    }
