"""The Tacview file, read back with a parser of our own."""

import math
import re

import pytest

from navrl.view.acmi import acmi
from navrl.view.combat_recording import recording
from tests.view.fights import brawl, duel


def read(text):
    """Header, and [(time, id, {property: value}) or (time, id, None) for a removal]."""
    first, second, *lines = text.splitlines()
    assert (first, second) == ("FileType=text/acmi/tacview", "FileVersion=2.2")
    time_s, world, entries = 0.0, {}, []
    for line in lines:
        if line.startswith("#"):
            assert float(line[1:]) > time_s or time_s == 0.0, "time only goes forward"
            time_s = float(line[1:])
        elif line.startswith("-"):
            entries.append((time_s, int(line[1:], 16), None))
        else:
            identity, *properties = re.split(r"(?<!\\),", line)
            found = dict(part.replace("\\,", ",").split("=", 1) for part in properties)
            if identity == "0" and "Event" not in found:
                world |= found
            entries.append((time_s, int(identity, 16), found))
    return world, entries


@pytest.mark.parametrize("fight", [duel, brawl])
def test_everybody_is_where_the_recording_says(fight):
    recorded = recording(*fight()[:2])
    world, entries = read(acmi(recorded, title="a, b | c\nd"))
    assert world["Title"] == "a, b / c d"
    assert world["ReferenceTime"].endswith("Z")
    for index, record in enumerate(recorded.aircraft):
        own = [(t, found) for t, identity, found in entries if identity == index + 1 and found]
        assert own[0][1]["Color"] == ("Red", "Blue")[record.team]
        assert own[0][1]["Type"] == "Air+FixedWing"
        assert [t for t, _ in own] == [pytest.approx(t, abs=0.006) for t in record.track.time_s]
        for knot, (_, found) in enumerate(own):
            longitude, latitude, altitude, roll, _, yaw, x, y, heading = (
                float(part) for part in found["T"].split("|")
            )
            assert longitude * 111_320.0 == pytest.approx(record.track.x_m[knot], abs=0.1)
            assert latitude * 111_320.0 == pytest.approx(record.track.y_m[knot], abs=0.1)
            assert (x, y) == pytest.approx(
                (record.track.x_m[knot], record.track.y_m[knot]), abs=0.06
            )
            assert altitude == 8000.0
            north = math.radians(90.0 - yaw)  # compass to mathematics
            assert math.cos(north - record.track.heading_rad[knot]) > 0.99999
            assert heading == yaw
            assert roll * record.rudder[knot] <= 0.0, "a left turn (positive rudder) banks left"
        assert [t for t, identity, found in entries if identity == index + 1 and found is None] == (
            [] if record.died_s is None else [pytest.approx(record.died_s, abs=0.006)]
        )


def test_missiles_appear_at_the_launch_and_go_at_the_end():
    recorded = recording(*brawl()[:2])
    _, entries = read(acmi(recorded, title="x"))
    seen = {identity for _, identity, _ in entries if identity >= 0x100}
    assert len(seen) == len(recorded.flights) >= 8
    for identity, flight in zip(sorted(seen), recorded.flights, strict=True):
        own = [(t, found) for t, i, found in entries if i == identity]
        assert own[0][0] == pytest.approx(flight.track.time_s[0])
        assert own[0][1]["Type"] == "Weapon+Missile"
        assert int(own[0][1]["Parent"], 16) == flight.carrier + 1
        assert (own[-1][1] is None) == (flight.ending != "flying")
        assert own[-1][0] == pytest.approx(flight.track.time_s[-1], abs=0.006)


def test_events_are_written():
    recorded = recording(*duel()[:2])
    _, entries = read(acmi(recorded, title="x"))
    events = [(t, found["Event"]) for t, _, found in entries if found and "Event" in found]
    assert [event for _, event in events] == [
        "Message|1|2|Red fires at Blue",
        "Message|2|1|Blue fires at Red",
        "Message|2|1|Blue hits Red",
        "Destroyed|1|Red is shot down",
        f"Bookmark|Blue wins after {recorded.times_s[-1]:.1f} s",
    ]
    assert [t for t, _ in events[:-1]] == [
        pytest.approx(e.time_s, abs=0.006) for e in recorded.events
    ]
