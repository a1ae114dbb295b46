"""navrl bench-navigation: the table, its JSON, and what it refuses."""

import json

import pytest

from navrl.commands.bench_navigation import main

SMALL = (
    *("compile=off", "env=navigation", "static=20"),
    *("world.count=2", "world.routes_per_world=8", "world.map.count=20"),
    *("world.difficulty.static=20", "env.sim.time_limit_s=0.5", "world.renew_episodes=null"),
)


@pytest.mark.commands
def test_every_planner_with_and_without_shield_in_every_density(tmp_path, capsys):
    file = tmp_path / "table.json"
    options = ["num_episodes=4", "moving=0,40", "--json", str(file)]
    assert main([*options, *SMALL]) == 0
    printed = capsys.readouterr().out
    rows = json.loads(file.read_text())["rows"]
    assert len(rows) == 4 * 2 * 2
    assert {row["policy"] for row in rows} == {
        "greedy",
        "potential_field",
        "velocity_obstacles",
        "orca",
    }
    for row in rows:
        ends = ("success", "collision_static", "collision_moving", "outside", "timeout")
        assert sum(row["metrics"][name]["mean"] for name in ends) == pytest.approx(1.0)
        assert (row["metrics"]["interventions"]["mean"] == 0.0) or row["shield"] == "on"
        if row["moving"] == 0:
            assert row["metrics"]["collision_moving"]["mean"] == 0.0
    assert sum(line.startswith("greedy") for line in printed.splitlines()) == 4


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (["num_episodes=0"], "num_episodes = 0; expected a whole number, 1 or more"),
        (["static=21"], "static = 21; expected a whole number from 0 to 20"),
        (["moving=-1"], "moving = -1; expected a whole number from 0 to 80"),
        (["nobody"], "nobody"),
    ],
)
def test_mistakes_get_a_sentence(wrong, sentence, capsys):
    assert main(["--no-planners", "scripted:greedy", *SMALL, *wrong]) != 0
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize("name", ["nobody", "scripted:gredy", "scripted:crank"])
def test_a_policy_that_does_not_exist_is_refused_before_others_fly(name, capsys):
    assert main(["--no-planners", "scripted:greedy", name, *SMALL]) != 0
    printed = capsys.readouterr()
    assert name.removeprefix("scripted:") in printed.err
    assert not printed.out


def test_there_is_room_for_more_moving_obstacles_than_the_env_asks_for(tmp_path, capsys):
    file = tmp_path / "table.json"
    options = ("num_episodes=2", "shield=none", "moving=8,90")
    assert main(["--no-planners", "scripted:greedy", *SMALL, *options, "--json", str(file)]) == 0
    assert [row["moving"] for row in json.loads(file.read_text())["rows"]] == [8, 90]


def test_an_env_without_obstacles_is_refused(capsys):
    assert main(["--no-planners", "scripted:random", "env=combat", "num_episodes=2"]) != 0
    assert "'shield' is an option of env=navigation" in capsys.readouterr().err


def test_to_fly_nothing_is_refused(capsys):
    assert main(["--no-planners"]) != 0
    assert "name a policy, or leave --no-planners out" in capsys.readouterr().err
