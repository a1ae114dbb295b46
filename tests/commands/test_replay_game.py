"""Recorded games on the command line: `navrl replay` shows what the page of the game has shown."""

import functools
import json
import math
import re
from pathlib import Path

import pytest

import navrl.commands.replay
from navrl.live.play import games as games_module
from navrl.live.play.trip import DroneGames
from tests.live.play.recorded import fights, fly

SHORT = ("scenario.range_m=[5000,6000]", "env.sim.time_limit_s=1")
FLIGHT = ("world.count=1", "env.sim.time_limit_s=2")


def weave(tick):
    rudder = 0.8 * math.sin(tick / 9)
    return {"rudder": rudder, "throttle": 1.0, "fire": tick == 5, "target": -1}


@pytest.fixture
def replay(run):
    """replay(*arguments) -> (exit code, printed text)."""
    return functools.partial(run, navrl.commands.replay.main)


def data_of(path):
    (found,) = re.findall(r'id="data">(.*?)</script>', Path(path).read_text(encoding="utf-8"))
    return json.loads(found)


def seen(data):
    """What happens in a replay, without its titles."""
    return {key: value for key, value in data.items() if key not in ("title", "subtitle", "sides")}


def test_a_fight_is_replayed_as_its_own_page_has_it(replay, monkeypatch, tmp_path):
    games = fights(*SHORT)
    result = fly(games.make(games.first._asdict()), weave)
    theirs = data_of(games.replays.path(result["replay"].rpartition("/")[2]))
    code, printed = replay(result["folder"], "--output", "again.html", "--acmi")
    assert code == 0, printed.err
    assert printed.out.startswith("ace against crank, seed 3, episode 0: Draw after 1.0 s")
    ours = data_of("again.html")
    assert seen(ours) == seen(theirs)
    assert {missile["carrier"] for missile in ours["missiles"]} == {0, 1}
    assert Path("again.acmi").read_text(encoding="utf-8-sig").startswith("FileType=text/acmi")


def test_a_fight_that_was_left_ends_where_it_was_left(replay, monkeypatch, tmp_path):
    monkeypatch.setattr(games_module, "LEAVING_LOSES_S", 0.5)
    games = fights(*SHORT)
    result = fly(games.make(games.first._asdict()), weave, most=12)
    assert result["left"]
    code, printed = replay(f"{result['folder']}/fight.json")
    assert code == 0, printed.err
    assert data_of(f"{result['folder']}/replay.html")["duration"] == pytest.approx(12 * 0.05)


def test_a_flight_of_a_drone_is_replayed(replay, tmp_path):
    games = DroneGames(pilot="ace", overrides=FLIGHT, seed=5)
    result = fly(games.make({}), lambda tick: {"east": 0.5, "north": math.sin(tick), "up": 0.0})
    theirs = data_of(games.replays.path(result["replay"].rpartition("/")[2]))
    code, printed = replay(result["folder"], "--output", "again.html")
    assert code == 0, printed.err
    assert seen(data_of("again.html")) == seen(theirs)


@pytest.fixture
def recorded(tmp_path, run):
    games = fights(*SHORT)
    return Path(fly(games.make(games.first._asdict()), weave, most=20)["folder"])


def changed(file, change):
    data = json.loads(file.read_text())
    change(data)
    file.write_text(json.dumps(data))


def test_what_cannot_be_shown_is_one_sentence(replay, recorded):
    def refused(sentence, *words, code=2):
        ended, printed = replay(str(recorded), *words)
        assert ended == code
        assert sentence in printed.err
        assert printed.err.count("\n") == 1

    refused("is one recorded game; expected no --outcome, seed=", "seed=4")
    refused("is one recorded game; expected no --outcome, seed=", "--outcome", "win")
    refused("env.sim.channels=2: a recorded game is shown as it was flown", "env.sim.channels=2")
    changed(recorded / "fight.json", lambda facts: facts.update(seed=10**400))
    refused("expected a whole number from 0 to 9223372036854775807")
    changed(recorded / "fight.json", lambda facts: facts.update(seed=4))
    refused("was recorded otherwise from decision 0 on")
    frozen = {"_target_": "navrl.envs.combat.opponents.Frozen", "checkpoint": "/etc/passwd"}
    changed(recorded / "config.json", lambda config: config["opponent"].update(pilot=frozen))
    refused("would read opponent.pilot.checkpoint = /etc/passwd; expected it to be repeated")
    changed(recorded / "config.json", lambda config: config["env"].update(_target_="os.system"))
    refused("holds no fight and no flight of a drone")
    (recorded / "rollouts").rename(recorded / "others")
    (recorded / "rollouts").symlink_to("others")
    refused("rollouts' is a link; expected a folder of the run itself", code=1)
    (recorded / "rollouts").unlink()
    (recorded / "others").rename(recorded / "rollouts")
    (recorded / "fight.json").write_text("[1]")
    refused("expected a game that navrl play has recorded")
