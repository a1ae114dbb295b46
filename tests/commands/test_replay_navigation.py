"""The replay command for drone navigation: all episodes in one file, and plain words about anything wrong."""

import json
import re

import pytest

import navrl.commands.replay

SMALL = (
    *("world.count=2", "world.routes_per_world=8", "world.map.count=40"),
    *("world.difficulty.static=40", "env.sim.time_limit_s=3"),
)
CHANGED = (
    "count=2-routes_per_world=8-count=40-static=40-time_limit_s=3"  # as names of files have it
)
EPISODES = 6


@pytest.fixture
def replay(tmp_path, monkeypatch, capsys):
    """replay(*arguments) -> (exit code, what it printed), in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(navrl.commands.replay, "SEARCHED", EPISODES)

    def run(*arguments):
        return navrl.commands.replay.main(list(arguments)), capsys.readouterr()

    return run


def data_of(path):
    """What the page's scripts read."""
    (found,) = re.findall(r'id="data">(.*?)</script>', path.read_text(encoding="utf-8"))
    return json.loads(found)


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
    said, wrote = printed.out.splitlines()
    assert said == f"greedy in navigation, seed 3, episode 7: {data['trips'][0]['outcome']}"
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


def test_an_outcome_is_searched_and_shown_first(replay, tmp_path):
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
        endings = ("success", "collision_moving", "collision_static", "timeout")

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


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["scripted:greedy", "--acmi"], "leave --acmi out"),
        (["scripted:greedy", "--outcome", "win"], "success, collision, collision_static"),
        (["scripted:greedy", "opponent=crank"], "'opponent' is an option of env=combat"),
        (["scripted:crank", "shield=on"], "'shield' is an option of env=navigation"),
        (["scripted:gredy", "env=navigation", *SMALL], "Unknown scripted policy 'gredy'"),
        (["scripted:greedy", "env=navigatoin"], "did you mean 'navigation'?"),
        (["scripted:greedy", "shield=off"], "Unknown shield 'off'"),
    ],
)
def test_bad_input_is_one_sentence(replay, tmp_path, arguments, sentence):
    code, printed = replay(*arguments)
    assert code == 2
    (error,) = (line for line in printed.err.splitlines() if not line.startswith("making the env"))
    assert error.startswith("navrl: error: ")
    assert sentence in error
    assert list(tmp_path.iterdir()) == []
