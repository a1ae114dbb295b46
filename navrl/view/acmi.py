"""Tacview files (ACMI 2.2, text) of recorded fights; the simulator is planar, so the altitude is constant."""

import math
from collections.abc import Iterator

from navrl.envs.combat.sim.flight import GRAVITY_MPS2
from navrl.view.combat_page import SIDES, aircraft_names, outcome
from navrl.view.combat_recording import AircraftRecord, Event, Flight, Recording
from navrl.view.spacetime import SPEED_OF_SOUND_MPS

# The plane of the simulator touches the globe here, in the open Atlantic. Any place would do; near the
# equator a degree of longitude is about as long as one of latitude.
_LONGITUDE_DEG, _LATITUDE_DEG = -25.0, 0.0
_METRES_PER_DEG = 111_320.0
_ALTITUDE_M = 8000.0
_START = "2000-01-01T00:00:00Z"  # Tacview wants a date; the simulator has none
_FIRST_MISSILE = 0x100
_TEXT = {
    "launch": "{own} fires at {other}",
    "hit": "{own} hits {other}",
    "miss": "{own} misses {other}",
    "kill": "{own} is shot down",
}


def acmi(recorded: Recording, *, title: str) -> str:
    """Return the text of the file."""
    # (time, rank, text): at equal times first aircraft and missiles, then events, then removals.
    lines: list[tuple[float, int, str]] = []
    for index, record in enumerate(recorded.aircraft):
        lines += _aircraft(recorded, index, record)
    for number, flight in enumerate(recorded.flights):
        lines += _missile(recorded, number, flight)
    lines += [(event.time_s, 1, _event(recorded, event)) for event in recorded.events]
    lines.append((recorded.times_s[-1], 1, f"0,Event=Bookmark|{_plain(outcome(recorded))}"))
    return "\n".join([*_header(title), *_framed(lines)]) + "\n"


def _header(title: str) -> list[str]:
    return [
        "FileType=text/acmi/tacview",
        "FileVersion=2.2",
        f"0,ReferenceTime={_START}",
        f"0,ReferenceLongitude={_LONGITUDE_DEG:g}",
        f"0,ReferenceLatitude={_LATITUDE_DEG:g}",
        "0,DataSource=navrl",
        "0,DataRecorder=navrl",
        f"0,Title={_plain(title)}",
    ]


def _framed(lines: list[tuple[float, int, str]]) -> Iterator[str]:
    """Yield the lines in the order of their times, a '#time' before each new one."""
    frame = ""
    for time_s, _, line in sorted(lines, key=lambda entry: entry[:2]):
        if frame != f"#{time_s:.2f}":
            frame = f"#{time_s:.2f}"
            yield frame
        yield line


def _aircraft(
    recorded: Recording, index: int, record: AircraftRecord
) -> Iterator[tuple[float, int, str]]:
    track, side = record.track, SIDES[record.team]
    for knot, time_s in enumerate(track.time_s):
        load = track.speed_mps[knot] ** 2 * record.rudder[knot]
        load /= recorded.params.fighter.turn_radius_m * GRAVITY_MPS2
        bank_deg = -math.degrees(math.atan(load))  # a left turn banks left, which counts negative
        place = _place(track.x_m[knot], track.y_m[knot], bank_deg, track.heading_rad[knot])
        words = f"{_id(index)},T={place},Mach={track.speed_mps[knot] / SPEED_OF_SOUND_MPS:.3f}"
        if knot == 0:
            name = aircraft_names(recorded)[index]
            words += f",Type=Air+FixedWing,Name=Fighter,Pilot={name},Color={side},Coalition={side}"
        yield time_s, 0, words
    if record.died_s is not None:
        yield record.died_s, 2, f"-{_id(index)}"


def _missile(recorded: Recording, number: int, flight: Flight) -> Iterator[tuple[float, int, str]]:
    track, identity = flight.track, f"{_FIRST_MISSILE + number:x}"
    side = SIDES[recorded.aircraft[flight.carrier].team]
    for knot, time_s in enumerate(track.time_s):
        place = _place(track.x_m[knot], track.y_m[knot], 0.0, track.heading_rad[knot])
        words = f"{identity},T={place}"
        if knot == 0:
            words += (
                f",Type=Weapon+Missile,Name=Missile,Parent={_id(flight.carrier)},"
                f"Color={side},Coalition={side}"
            )
        yield time_s, 0, words
    if flight.ending != "flying":
        yield track.time_s[-1], 2, f"-{identity}"


def _event(recorded: Recording, event: Event) -> str:
    names = aircraft_names(recorded)
    text = _TEXT[event.kind].format(own=names[event.aircraft], other=names[event.other])
    if event.kind == "kill":
        return f"0,Event=Destroyed|{_id(event.aircraft)}|{text}"
    return f"0,Event=Message|{_id(event.aircraft)}|{_id(event.other)}|{text}"


def _place(x_m: float, y_m: float, roll_deg: float, heading_rad: float) -> str:
    """Return longitude | latitude | altitude | roll | pitch | yaw | x | y | heading for Tacview."""
    compass_deg = (90.0 - math.degrees(heading_rad)) % 360.0
    # The scale of the equator along both axes keeps angles and distances as they are in the plane.
    longitude, latitude = x_m / _METRES_PER_DEG, y_m / _METRES_PER_DEG
    return (
        f"{longitude:.7f}|{latitude:.7f}|{_ALTITUDE_M:g}|{round(roll_deg, 1) + 0.0}|0|{compass_deg:.2f}"
        f"|{x_m:.1f}|{y_m:.1f}|{compass_deg:.2f}"
    )


def _id(aircraft: int) -> str:
    return f"{aircraft + 1:x}"  # 0 is the world


def _plain(text: str) -> str:
    """Return free text with the separators of fields removed or escaped."""
    return " ".join(text.replace("|", "/").split()).replace("\\", "\\\\").replace(",", "\\,")
