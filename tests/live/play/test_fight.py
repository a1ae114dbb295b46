"""Fights that go on: the simulator's frames for the page, and files that hold a fight bit for bit."""

import json
import math

import pytest
import torch

from navrl.commands import play
from navrl.config.checks import ConfigError
from navrl.live.play import games as games_module
from navrl.live.play import record
from navrl.live.play.choice import Choice, checked, configuration, menu
from navrl.live.play.fight import CombatFight, stick_of
from navrl.live.play.games import CombatGames
from tests.live.play.recorded import flown_again, read_back

NEAR = ("scenario.range_m=[5000,6000]",)  # fights of some seconds
ROWS = ("x", "y", "heading", "speed", "rudder", "throttle", "alive", "rounds")


def fight(choice, *overrides, seed=3):
    return CombatFight(choice, configuration(choice, overrides), seed=seed)


def stick(**changes):
    return {"rudder": 0.0, "throttle": 1.0, "fire": False, "target": -1, "number": 1, **changes}


@pytest.fixture(scope="module")
def flown(tmp_path_factory):
    """A whole fight against crank: a turn, then a shot as soon as the enemy is ahead."""
    game = fight(Choice("crank"), *NEAR)
    frames, tick = [], 0
    while not game.over:
        game.command(stick(rudder=0.8 * math.sin(tick / 9), fire=tick % 7 == 0, number=tick))
        frames.append(game.step())
        tick += 1
    return game, frames


def test_frames_follow_the_simulator(flown):
    game, frames = flown
    assert [frame["t"] for frame in frames[:3]] == [0.05, 0.1, 0.15], "20 a second"
    assert [frame["number"] for frame in frames] == [*range(len(frames))]
    assert [frame["over"] for frame in frames] == [False] * (len(frames) - 1) + [True]
    for frame in frames[:: len(frames) // 5]:
        state = game._packing.unpack(game._packed[round(frame["t"] / 0.05)])
        motion = state.aircraft.motion
        for index, row in enumerate(frame["aircraft"]):
            shown = dict(zip(ROWS, row, strict=True))
            assert shown["x"] == pytest.approx(motion.x_m[index, 0].item(), abs=0.06)
            assert shown["speed"] == pytest.approx(motion.speed_mps[index, 0].item(), abs=0.06)
            heading = motion.sin_heading[index, 0].item(), motion.cos_heading[index, 0].item()
            assert shown["heading"] == pytest.approx(math.atan2(*heading), abs=1e-4)


def test_the_player_steers_at_every_tick(flown):
    _, frames = flown
    for tick in (0, 10, 20):
        rudder = frames[tick]["aircraft"][0][ROWS.index("rudder")]
        assert rudder == pytest.approx(0.8 * math.sin(tick / 9), abs=0.001)


def test_missiles_have_a_number_from_launch_to_end(flown):
    game, frames = flown
    launched = [each for frame in frames for each in frame["launched"]]
    ended = [each for frame in frames for each in frame["ended"]]
    assert [each["number"] for each in launched] == [*range(1, len(launched) + 1)]
    assert launched[0]["carrier"] == 0
    assert {each["number"] for each in ended} <= {each["number"] for each in launched}
    recorded = game.recorded()  # which derives them from the states alone
    assert len(recorded.flights) == len(launched)
    endings = sorted(flight.ending for flight in recorded.flights if flight.ending != "flying")
    assert sorted(each["ending"] for each in ended) == endings
    kinds = sorted(event["kind"] for frame in frames for event in frame["events"])
    assert kinds == sorted(event.kind for event in recorded.events)


def test_a_recorded_fight_is_flown_again_bit_for_bit(flown, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    game, _ = flown
    outcome = record.outcome_of(game)
    facts = record.facts_of(game, outcome, "ace")
    folder = record.save("crank", game.rollout(), game.config, facts)
    facts = json.loads((folder / "fight.json").read_text())
    assert (facts["pilot"], facts["opponent"], facts["seed"]) == ("ace", "crank", 3)
    assert facts["seconds"] == pytest.approx(game.recorded().times_s[-1], abs=0.01)
    config, seed, stored = read_back(folder)
    again = flown_again(config, seed, stored["action"])
    assert again.batch_size == stored.batch_size
    keys = list(stored.keys(True, True))
    assert ("next", "episode") in keys
    for key in keys:
        assert torch.equal(again[key], stored[key]), key
    # Its first second otherwise, and the fight is another one.
    actions = stored["action"][:, :30].clone()
    actions[:, :20, 0] = 1.0
    other = flown_again(config, seed, actions)
    assert not torch.equal(other["observation", "ego"], stored["observation", "ego"][:, :30])


def test_a_wingman_and_two_enemies_fly_beside_the_player():
    game = fight(Choice("crank", team_size=2, wingman="pursuit"), "scenario.range_m=[9000,9500]")
    names = [craft["name"] for craft in game.opening()["aircraft"]]
    assert names == ["Red 1", "Red 2", "Blue 1", "Blue 2"]
    game.command(stick(rudder=-1.0, fire=True, target=1))
    frame = game.step()
    assert frame["aircraft"][0][ROWS.index("rudder")] == -1.0
    mine = [each for each in frame["launched"] if each["carrier"] == 0]
    assert [each["target"] for each in mine] == [3], "the second of the enemies, as chosen"
    assert game.rollout()["agents", "action"].shape == (1, 1, 2, 4)


def test_a_policy_that_was_trained_alone_flies_in_a_team():
    choice = Choice("zoo:combat-league", team_size=2, wingman="zoo:combat-scripts")
    game = fight(choice)
    for _ in range(25):
        game.command(stick())
        frame = game.step()
    controls = [row[ROWS.index("rudder")] for row in frame["aircraft"]]
    assert set(controls) <= {-1.0, 0.0, 1.0}, "its choices"


def test_two_policies_fight_without_a_player():
    game = fight(Choice("straight", own="pursuit"), *NEAR)
    assert game.pilots == ("pursuit", "straight")
    game.command(stick(rudder=1.0, fire=True))
    first = game.step()
    again = fight(Choice("straight", own="pursuit"), *NEAR)
    assert again.step()["aircraft"] == first["aircraft"], "nobody's stick counts"


def test_the_graph_says_who_can_escape():
    game = fight(Choice("straight"), *NEAR)
    graph = game.graph(0)
    assert graph["me"] == 0
    assert len(graph["graphs"]["of"][0]) == 2
    assert graph["graphs"]["of"][0][1] is None
    assert max(graph["attack"]) < 0, "at 6 km nobody outruns a missile"
    assert game.graph(7) is None


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"rudder": 1.5}, "rudder = 1.5; expected a number from -1 to 1"),
        ({"rudder": math.nan}, "rudder = nan"),
        ({"throttle": "1"}, "throttle = '1'"),
        ({"throttle": True}, "throttle = True"),
        ({"fire": 1}, "fire = 1; expected true or false"),
        ({"target": 8}, "target = 8"),
        ({"number": -1}, "number = -1"),
        ({"number": 1.0}, "number = 1.0"),
    ],
)
def test_a_stick_that_is_none_is_refused(changes, sentence):
    with pytest.raises(ConfigError, match=sentence.replace(".", r"\.")):
        stick_of(stick(**changes))


@pytest.mark.parametrize(
    ("choice", "sentence"),
    [
        (Choice("cranky"), "'cranky' is none of the pilots"),
        (Choice("crank", team_size=3), "team_size"),
        (Choice("crank", difficulty="hrd"), "did you mean 'hard'"),
        (Choice("crank", own="../../etc/passwd"), "is none of the pilots"),
    ],
)
def test_an_impossible_choice_is_refused(choice, sentence):
    with pytest.raises(ValueError, match=sentence):
        checked(choice, menu([]))


@pytest.mark.parametrize("word", ["opponent=crank", "env.sim.decision_s=1", "action=discrete"])
def test_what_the_game_decides_is_refused(word):
    with pytest.raises(ConfigError, match="navrl play decides"):
        configuration(Choice("crank"), [word])


def test_another_world_is_refused():
    with pytest.raises(ConfigError):
        configuration(Choice("crank"), ["env=coverage"])


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["zoo:navigation"], "opponent = zoo:navigation"),
        (["zoo:coverage", "crank", "--watch"], "own pilot = zoo:coverage"),
        (["crank", "team_size=2", "wingman=zoo:relay"], "wingman = zoo:relay"),
    ],
)
def test_a_pilot_of_another_world_is_refused_on_the_command_line(words, named, capsys):
    assert play.main(words) == 2
    printed = capsys.readouterr().err
    assert f"{named}: it is a run of env=" in printed
    assert printed.count("\n") == 1


# ---- scores and ratings ----------------------------------------------------------------------------


def outcome(**changes):
    plain = {"result": 1, "reason": "", "seconds": 75.0, "fired": 2, "hits": 1, "evaded": 3}
    return record.Outcome(**{**plain, "left": 4, "left_early": False, **changes})


@pytest.mark.parametrize(
    ("changes", "points"),
    [
        ({}, 1000 + 300 + 4 * 50 + 300 * 3 // 4),  # 75 s of 300
        ({"result": 0}, 400 + 300),
        ({"result": -1, "evaded": 0}, 0),
        ({"result": -1}, 300),
        ({"seconds": 400.0, "left": 0, "evaded": 0}, 1000),
    ],
)
def test_the_score_counts(changes, points):
    assert sum(points for _, points in record.score_of(outcome(**changes), 300.0)) == points


def test_ratings_are_elo_with_their_interval(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    results = [("ace", "crank", 1)] * 6 + [("ace", "crank", -1)] * 2 + [("bob", "crank", -1)]
    for number, (pilot, opponent, result) in enumerate([*results, ("ace", "straight", 0)]):
        folder = record.FOLDER / f"2026-{number:03d}"
        folder.mkdir(parents=True)
        facts = {"pilot": pilot, "opponent": opponent, "result": result}
        (folder / "fight.json").write_text(json.dumps(facts))
    for number, text in enumerate(
        ["", "[]", '{"pilot": 1}', '{"pilot": "ace", "opponent": "x", "result": [1]}']
    ):
        folder = record.FOLDER / f"broken-{number}"
        folder.mkdir()
        (folder / "fight.json").write_text(text)
    straight, crank = record.ratings("ace")
    assert (crank["opponent"], crank["wins"], crank["draws"], crank["losses"]) == ("crank", 6, 0, 2)
    # With one imagined draw the score is 6.5 of 9: odds of 13 to 5, and 400 points are odds of 10 to 1.
    lead = 400.0 * math.log10(13 / 5)
    half = 1.959964 * 400.0 / math.log(10.0) / math.sqrt(9 * (13 / 18) * (5 / 18))
    assert crank["points"] == pytest.approx(1000 + lead, abs=1)
    assert crank["low"] == pytest.approx(1000 + lead - half, abs=1)
    assert crank["high"] == pytest.approx(1000 + lead + half, abs=1)
    assert straight["points"] == 1000


def test_who_leaves_late_has_lost_and_who_leaves_early_has_not_played(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(games_module, "LEAVING_LOSES_S", 1.0)
    games = CombatGames(
        Choice("straight"),
        pilot="ace",
        overrides=["scenario.range_m=[40000,41000]"],
        named=[],
        seed=9,
    )
    message = {**Choice("straight")._asdict(), "type": "new"}
    game = games.make(message)
    for _ in range(19):
        game.step()
    assert game.close() == {"left": True}
    assert not record.FOLDER.exists()
    game = games.make(message)
    for _ in range(21):
        game.step()
    result = game.close()
    assert result["outcome"]["result"] == -1
    assert [row["losses"] for row in record.ratings("ace")] == [1]
    replay = games.replays.path(result["folder"].rpartition("/")[2])
    assert "Red: you" in replay.read_text()
    assert games.replays.path("..") is None
    assert game.seed == 10, "another fight than the first"
