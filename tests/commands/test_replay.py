"""The replay command: one episode, one file, and plain words about anything wrong."""

import functools
import json
import re

import pytest

import navrl.commands.replay
import navrl.train
from tests.command_line import command

COARSE = "env.sim.tick_s=0.25"
EPISODES = 6
SHORT = ("scenario.range_m=[12000,14000]", "env.sim.time_limit_s=30", COARSE)
SMALL = (
    *("world.count=2", "world.routes_per_world=8", "world.map.count=40"),
    *("world.difficulty.static=40", "env.sim.time_limit_s=3"),
)
CHANGED = (
    "count=2-routes_per_world=8-count=40-static=40-time_limit_s=3"  # as names of files have it
)


@pytest.fixture
def replay(run, monkeypatch):
    """replay(*arguments) -> (exit code, printed text)."""
    monkeypatch.setattr(navrl.commands.replay, "SEARCHED", EPISODES)
    return functools.partial(run, navrl.commands.replay.main)


def data_of(path):
    """Return the data of the page."""
    (found,) = re.findall(r'id="data">(.*?)</script>', path.read_text(encoding="utf-8"))
    return json.loads(found)


def test_a_scripted_fight_becomes_one_file(replay, tmp_path):
    code, printed = replay("scripted:straight", "opponent=crank", "seed=3", *SHORT)
    assert code == 0, printed.err
    (file,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    # Another for other fights.
    name = "straight-crank-range_m=12000,14000-time_limit_s=30-tick_s=0.25-seed3.html"
    assert file == tmp_path / "outputs/replays" / name
    data = data_of(file)
    assert data["title"] == "straight against crank"
    assert data["subtitle"] == "seed 3, episode 0"
    outcome, wrote = printed.out.splitlines()
    assert outcome == f"straight against crank, seed 3, episode 0: {data['outcome']}"
    assert wrote.startswith(f"wrote outputs/replays/{name} (")
    assert [craft["name"] for craft in data["aircraft"]] == ["Red", "Blue"]
    assert len(data["graphs"]["of"]) == len(data["aircraft"][0]["track"]["t"])


def test_a_team_fight_shows_everybody(replay, tmp_path):
    team = ("env.team_size=2", "env.sim.channels=2", "env.sim.time_limit_s=10", COARSE)
    code, printed = replay("scripted:crank", "opponent=crank", "--output", "t.html", *team)
    assert code == 0, printed.err
    data = data_of(tmp_path / "t.html")
    assert [craft["name"] for craft in data["aircraft"]] == ["Red 1", "Red 2", "Blue 1", "Blue 2"]
    assert [craft["side"] for craft in data["aircraft"]] == [0, 0, 1, 1]
    paths = {tuple(craft["track"]["x"]) for craft in data["aircraft"]}
    assert len(paths) == 4, "each flies its own way"


@pytest.mark.commands
def test_the_choice_names_the_opponent_and_a_checkpoint_can_be_any(replay, tmp_path):
    tiny = (
        "experiment=debug",
        "logger=none",
        "console=none",
        "eval_opponents=[]",
        "total_frames=256",
    )
    near = ("scenario.range_m=[12000,14000]", "env.sim.time_limit_s=8", COARSE, "opponent=scripts")
    options = (*tiny, *near, "checkpoint.save_every=1", "hydra.run.dir=outputs/run")
    assert command(navrl.train.main, *options) == 0
    first = "outputs/run/checkpoints/step_000000000128.ckpt"
    for opponent, shown in {
        None: "scripts",
        "checkpoint": "run/step_000000000256",
        f"checkpoint:{first}": "run/step_000000000128",
    }.items():
        chosen = () if opponent is None else (f"opponent={opponent}",)
        code, printed = replay("run", *chosen, "--output", "page.html")
        assert code == 0, printed.err
        assert printed.out.startswith(f"ppo after 256 frames against {shown}, seed ")
        assert data_of(tmp_path / "page.html")["title"].endswith(f" against {shown}")
    code, printed = replay(
        "run", "opponent=straight", "env.sim.time_limit_s=2", "--output", "a.html"
    )
    assert code == 0, printed.err
    assert data_of(tmp_path / "a.html")["duration"] == 2.0
    for word, sentence in {
        "env.sim.time_limt_s=2": "did you mean 'env.sim.time_limit_s'?",
        "shield=on": "env 'combat' has no shield",
        "+env.new=2": "Cannot apply '+env.new=2' to a run",
    }.items():
        code, printed = replay("run", word)
        assert code == 2
        assert sentence in printed.err
    code, printed = replay("run", "opponent=checkpoint:nobody")
    assert code == 2
    assert "opponent.checkpoint = nobody: no run" in printed.err


def test_an_outcome_is_searched_and_plays_alike_on_its_own(replay, tmp_path):
    arguments = ("scripted:straight", "opponent=crank", *SHORT)
    code, printed = replay("--outcome", "loss", "--output", "found.html", *arguments)
    assert code == 0, printed.err
    found = data_of(tmp_path / "found.html")
    assert printed.err.splitlines()[0] == "making the env, then playing 6 episodes"
    assert found["winner"] == 1
    episode = re.search(r"episode (\d+)", found["subtitle"])[1]
    assert replay(f"episode={episode}", "--output", "alone.html", *arguments)[0] == 0
    assert data_of(tmp_path / "alone.html")["outcome"] == found["outcome"]


def test_what_else_can_be_written(replay, tmp_path):
    code, printed = replay("scripted:random", "opponent=straight", "--acmi", *SHORT)
    assert code == 0, printed.err
    written = re.findall(r"wrote (\S+) ", printed.out)
    assert [name.rpartition(".")[2] for name in written] == ["html", "acmi"]
    assert (
        (tmp_path / written[1]).read_text(encoding="utf-8").startswith("FileType=text/acmi/tacview")
    )


def test_a_run_keeps_its_replays(tmp_path):
    run = tmp_path / "outputs/combat-ppo/one"
    label = str(run / "checkpoints/step_000000001024.ckpt")
    place = navrl.commands.replay._default_output
    assert place({}, label, "crank", 7, 0) == run / "replays/crank-seed7.html"
    assert place({}, label, "crank", 7, 2) == run / "replays/crank-seed7-episode2.html"
    stray = place({}, "/somewhere/best.ckpt", "crank", 7, 0)
    assert stray.as_posix() == "outputs/replays/best-crank-seed7.html"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nowhere"], "'nowhere'"),
        (["scripted:greedy", "--acmi"], "leave --acmi out"),
        (["scripted:greedy", "--outcome", "win"], "success, collision, collision_static"),
        (["scripted:greedy", "opponent=crank"], "'opponent' is an option of env=combat"),
        (["scripted:crank", "shield=on"], "'shield' is an option of env=navigation"),
        (["scripted:greedy", "shield=off"], "Unknown shield 'off'"),
        ([__file__], "is not a file of navrl"),
        (["lastest"], "did you mean 'latest'?"),
        (["scripted:crank", "--outcome", "wins"], "did you mean 'win'?"),
        (["scripted:greedy", "env=combat"], "'greedy' is at home in env=navigation"),
        (["scripted:mixture"], "Unknown scripted policy 'mixture'; available: crank, "),
        (["scripted:crank", "seed=-1"], "change seed"),
        (["scripted:crank", "--output", "a.mp4"], ".html"),
        (["scripted:crank", "--output", "no/such/folder.html"], "existing folder"),
        (["scripted:crank", "chanels"], "write key=value"),
    ],
)
def test_bad_input_is_one_sentence(replay, tmp_path, arguments, sentence):
    code, printed = replay(*arguments)
    assert code == 2
    (error,) = (line for line in printed.err.splitlines() if not line.startswith("making the env"))
    assert error.startswith("navrl: error: ")
    assert sentence in error
    assert list(tmp_path.iterdir()) == []


# ---- drone navigation: all episodes in one file


def test_all_episodes_become_one_file(replay, tmp_path):
    code, printed = replay("scripted:greedy", "seed=3", "episode=7", *SMALL)
    assert code == 0, printed.err
    (file,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    name = f"outputs/replays/greedy-navigation-{CHANGED}-seed3-episode7.html"
    assert file == tmp_path / name
    data = data_of(file)
    assert (data["title"], data["subtitle"]) == ("greedy in navigation", "seed 3")
    assert [trip["number"] for trip in data["trips"]] == list(range(7, 7 + EPISODES))
    assert data["chosen"] == 0
    outcome, wrote = printed.out.splitlines()
    assert outcome == f"greedy in navigation, seed 3, episode 7: {data['trips'][0]['outcome']}"
    assert wrote.startswith(f"wrote {name} (")
    kinds = {kind["kind"] for kind in data["outcomes"]}
    assert {trip["kind"] for trip in data["trips"]} <= kinds
    obstacles = [len(world["boxes"]) + len(world["cylinders"]) for world in data["landscapes"]]
    assert obstacles == [40] * len(obstacles)


def test_weights_that_were_trained_elsewhere_are_called_by_their_file():
    assert navrl.commands.replay._pilot(None, {"frames": 0}, "here/published.nvrl") == "published"


def test_an_episode_is_the_same_wherever_its_file_begins(replay, tmp_path):
    for first in ("0", "2"):
        code, printed = replay(
            "scripted:greedy", f"episode={first}", "--output", f"{first}.html", *SMALL
        )
        assert code == 0, printed.err
    early, late = (data_of(tmp_path / f"{first}.html") for first in ("0", "2"))
    for before, after in zip(early["trips"][2:], late["trips"], strict=False):
        assert before["number"] == after["number"]
        assert before["outcome"] == after["outcome"]
        assert before["x"] == after["x"]
        assert before["movers"] == after["movers"]
        worlds = [
            page["landscapes"][trip["world"]] for page, trip in ((early, before), (late, after))
        ]
        assert worlds[0] == worlds[1]


def test_an_outcome_of_navigation_is_shown_first(replay, tmp_path):
    arguments = ("scripted:greedy", "--output", "a.html", *SMALL)
    code, printed = replay("--outcome", "timeout", *arguments)
    assert code == 0, printed.err
    data = data_of(tmp_path / "a.html")
    kinds = [trip["kind"] for trip in data["trips"]]
    assert data["chosen"] == kinds.index("timeout")
    assert f"episode {data['chosen']}: The time is up after 3.0 s" in printed.out

    code, printed = replay("--outcome", "success", "seed=5", *arguments)
    assert code == 2, "nobody flies ten metres in three seconds"
    assert re.search(
        r"\nnavrl: error: no success in 6 episodes \(success 0, collision \d, .*\n$", printed.err
    )


def test_any_collision_counts_as_one():
    class Played:
        outcomes = navrl.commands.replay.NavigationReplay.outcomes
        endings = (
            {"success"},
            {"collision_moving", "collision"},
            {"collision_static", "collision"},
            {"timeout"},
        )

    first = navrl.commands.replay._first
    assert first(None, Played) == 0
    assert first("collision", Played) == 1
    assert first("collision_static", Played) == 2
    assert first("timeout", Played) == 3
    with pytest.raises(ValueError, match=r"no outside in 4 .*collision 2, collision_static 1"):
        first("outside", Played)


def test_another_env_and_the_shield(replay, tmp_path):
    code, printed = replay(
        *("scripted:random", "env=navigation_compat", "shield=on", "--png"), *SMALL
    )
    assert code == 0, printed.err
    written = re.findall(r"wrote (\S+) ", printed.out)
    name = f"outputs/replays/random-navigation_compat-shielded-{CHANGED}-seed1000003"
    assert written == [f"{name}.html", f"{name}.png"]
    data = data_of(tmp_path / written[0])
    assert data["title"] == "random in navigation_compat, shielded"
    assert data["params"]["sideLimit"] is None
    assert len(data["trips"][0]["ms"]) >= 2


# ---- any other world: its picture, if it draws one, and its numbers


def test_a_world_with_a_picture(replay, tmp_path):
    code, printed = replay("scripted:random", "env=coverage_relay", "env.sim.horizon=5", "seed=3")
    assert code == 0, printed.err
    name = "outputs/replays/random-coverage_relay-horizon=5-seed3.html"
    outcome, wrote = printed.out.splitlines()
    assert outcome.startswith("random in coverage_relay, seed 3, episode 0: Score ")
    assert outcome.endswith(" after 5 steps")
    assert wrote.startswith(f"wrote {name} (")
    data = data_of(tmp_path / name)
    counts = {shape["label"]: len(shape["points"]) for shape in data["shapes"] if shape["label"]}
    assert counts == {"user": 50, "drone": 5, "ground station": 1}
    assert [curve["name"] for curve in data["curves"]][-1] == "agents/action"


def test_a_rate_is_an_outcome(replay, tmp_path):
    grid = ("scripted:random", "env=alice_and_bob", "env.sim.size=2", "env.sim.horizon=9")
    for wanted, words in {"diamond_0": "", "no_success": "No success in 9 steps"}.items():
        code, printed = replay("--outcome", wanted, "--output", f"{wanted}.html", *grid)
        assert code == 0, printed.err
        data = data_of(tmp_path / f"{wanted}.html")
        assert data["outcome"].startswith(words)
        marks = [mark["label"] for mark in data["marks"]]
        assert (wanted in marks) == (wanted == "diamond_0")


def test_a_world_from_elsewhere_is_shown_by_its_numbers(replay, tmp_path):
    pytest.importorskip("gymnasium")
    code, printed = replay(
        *("scripted:random", "env=gym", "env.id=CartPole-v1", "--output", "a.html")
    )
    assert code == 0, printed.err
    data = data_of(tmp_path / "a.html")
    assert data["shapes"] == []
    curves = {curve["name"]: curve["lines"] for curve in data["curves"]}
    assert len(curves["observation/features"]) == 4
    assert curves["reward"] == [[None] + [1] * data["steps"]], "one for every step that it stands"
    assert curves["return"][0][-1] == data["steps"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--png"], "--png is for air combat and navigation, and env is 'alice_and_bob'"),
        (["--outcome", "win"], "env 'alice_and_bob' has success, no_success, diamond_0, "),
    ],
)
def test_what_such_a_world_has_not_is_refused(replay, tmp_path, arguments, sentence):
    code, printed = replay("scripted:random", "env=alice_and_bob", *arguments)
    assert code == 2
    assert sentence in printed.err.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []
