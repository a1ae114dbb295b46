"""A drone that is flown by stick: frames of the simulator, and files that hold the flight bit for bit."""

import json
import math

import pytest
import torch

from navrl.config.checks import ConfigError
from navrl.live.play import record
from navrl.live.play.trip import DroneGames, configuration
from tests.live.play.recorded import flown_again, read_back

# One world; the limit of the speed is 2 m/s.
SHORT = ("world.count=1", "env.sim.time_limit_s=2")


def stick(east=0.0, north=0.0, up=0.0, number=1):
    return {"east": east, "north": north, "up": up, "number": number}


@pytest.fixture(scope="module")
def games():
    return DroneGames(pilot="ace", overrides=SHORT, seed=5)


@pytest.mark.parametrize(("axis", "name"), [*enumerate(("east", "north", "up"))])
def test_the_stick_is_a_velocity_over_the_map(games, axis, name):
    game = games.make({})
    before = game.opening()["trips"][0]
    start = [before["start"][each] / 100 for each in range(3)]
    game.command(stick(**{name: 0.5}))
    for _ in range(20):
        frame = game.step()
        if game.over:
            break
    moved = [now - then for now, then in zip(frame["place"], start, strict=True)]
    assert moved[axis] > 0.2, "a second at up to 1 m/s, from rest"
    assert all(abs(moved[other]) < 0.03 for other in range(3) if other != axis)
    assert math.hypot(*frame["velocity"]) <= 1.05


def test_a_flight_is_recorded_and_flown_again_bit_for_bit(games, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    game = games.make({})
    tick = 0
    while not game.over:
        game.command(stick(0.4 * math.sin(tick / 5), 0.4 * math.cos(tick / 5), number=tick))
        frame = game.step()
        assert frame["number"] == tick
        tick += 1
    assert frame["t"] == pytest.approx(tick * 0.05)
    result = game.close()
    folder = tmp_path / result["folder"]
    facts = json.loads((folder / "fight.json").read_text())
    assert facts["pilot"] == "ace"
    config, seed, stored = read_back(folder)
    assert stored.batch_size == (1, tick)
    again = flown_again(config, seed, stored["action"])
    for key in stored.keys(True, True):
        assert torch.equal(again[key], stored[key]), key
    assert "a flight of yours" in games.replays.path(folder.name).read_text()
    assert record.ratings("ace") == [], "a drone has no opponent"


def test_a_flight_that_is_left_counts_nothing(games, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    game = games.make({})
    game.step()
    assert game.close() == {"left": True}
    assert not record.FOLDER.exists()


def test_wrong_sticks_and_options_are_refused(games):
    game = games.make({})
    for wrong in (stick(east=2.0), {"east": 0.0}, stick(up="1"), stick(north=math.inf)):
        with pytest.raises(ConfigError, match="expected a number from -1 to 1"):
            game.command(wrong)
    with pytest.raises(ConfigError, match="navrl play decides device itself"):
        configuration(["device=cuda"])
