"""navrl spacetime: the answer, in words, numbers and pictures, or one sentence about what is wrong."""

import functools
import json
import re

import pytest

import navrl.commands.spacetime


@pytest.fixture
def spacetime(run):
    """spacetime(*arguments) -> (exit code, printed text)."""
    return functools.partial(run, navrl.commands.spacetime.main)


def test_beyond_the_no_escape_range_there_is_a_way_out(spacetime):
    code, printed = spacetime("range_m=20000")
    assert code == 0, printed.err
    defence, attack = printed.out.splitlines()[:2]
    found = re.fullmatch(
        r"The enemy launches now: you escape by turning either way, with (\d\.\d) km to spare; "
        r"the margin is smallest (35|37.5|32.5) s from now\.",
        defence,
    )
    # 2.6 km beyond the 17.4 km from which nobody escapes
    assert 2.0 < float(found[1]) < 2.9
    assert attack.startswith("You launch now: the enemy escapes by turning either way, with ")


def test_within_it_there_is_none(spacetime):
    code, printed = spacetime("range_m=15000", "enemy_bearing_deg=20", "own_bearing_deg=-10")
    assert code == 0
    defence, attack = printed.out.splitlines()[:2]
    # The enemy is to my right, so I turn left; I am to his left, so he turns right.
    assert defence.startswith(
        "The enemy launches now: you cannot escape: your better escape, turning left"
    )
    assert attack.startswith(
        "You launch now: the enemy cannot escape: its better escape, turning right"
    )


def test_poses_say_the_same_as_range_and_bearings(spacetime):
    _, one = spacetime("range_m=20000", "own_bearing_deg=90", "enemy_bearing_deg=-30")
    # The enemy is to my left, so at (0, 20) km, heading 90 + 180 + 30.
    poses = "own=0,0,0,300", "enemy=0,20000,300,300"
    _, other = spacetime(*poses)
    assert one.out == other.out
    # And moved and turned by 90 degrees.
    _, turned = spacetime("own=500,-700,90,300", "enemy=-19500,-700,390,300")
    assert turned.out == one.out


def test_json_is_the_whole_graph(spacetime):
    code, printed = spacetime("range_m=20000", "--json")
    assert code == 0
    graph = json.loads(printed.out)
    assert graph["enemy"] == 1
    assert graph["own"] == {"x_m": 0.0, "y_m": 0.0, "heading_deg": 0.0, "speed_mps": 300.0}
    assert graph["margins"]["left_m"] == graph["attack"]["left_m"]
    assert len(graph["cone"]["slices"]) == 8
    assert graph["sentences"][0].startswith("The enemy launches now")


def test_options_of_the_fight_count(spacetime):
    _, plain = spacetime("range_m=20000")
    _, strong = spacetime("range_m=20000", "env.sim.missile.thrust_mps2=250")
    assert "you escape" in plain.out
    assert "you cannot escape" in strong.out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "expected either range_m=, or both own= and enemy="),
        (("range_m=9000", "own=0,0,0,300"), "the positions are unclear"),
        (("own=0,0,0,300",), "enemy= is missing"),
        (("range_m=-5",), "range_m = -5; expected metres, more than 0; change range_m"),
        (("range_m=nan",), "range_m = nan; expected metres"),
        (("range_m=9000", "own_speed_mps=0"), "own aircraft .* expected finite numbers"),
        (("own=0,0,0", "enemy=1,2,3,300"), "own = 0,0,0; expected x,y,heading,speed"),
        (("range_m=9000", "env.sim.hit_radius_m=-1"), "change env.sim.hit_radius_m"),
        (("range_m=9000", "env.team_size=2"), "one against one"),
        (("range_m=9000", "env=navigation"), "no air combat; expected env=combat"),
        (("range_m=9000", "enemy_speed_mps=501"), "up to 500 m/s; change enemy or enemy_s"),
        (("range_m=9000", "--png", "a.jpg"), "expected a name that ends in .png; change --png"),
    ],
)
def test_bad_input_gets_one_plain_sentence(spacetime, arguments, sentence):
    code, printed = spacetime(*arguments)
    assert code == 2
    assert printed.out == ""
    assert printed.err.startswith("navrl: error: ")
    assert printed.err.count("\n") == 1
    assert re.search(sentence, printed.err)


def test_help_shows_examples_that_run(spacetime):
    code, printed = spacetime("--help")
    assert code == 0
    examples = re.findall(r"^  navrl spacetime (.*?)(?:   .*)?$", printed.out, re.MULTILINE)
    assert len(examples) >= 4
    for line in examples:
        if "--png" not in line:
            assert spacetime(*line.split())[0] == 0


def test_a_picture(spacetime, tmp_path):
    pytest.importorskip("matplotlib", reason="the viz extra is not installed")
    pytest.importorskip("imageio_ffmpeg", reason="the viz extra is not installed")
    code, printed = spacetime("range_m=20000", "own_bearing_deg=20", "--png", "graph.png")
    assert code == 0, printed.err
    assert printed.out.endswith("wrote graph.png\n")
    data = (tmp_path / "graph.png").read_bytes()
    assert data.startswith(b"\x89PNG\r\n")
    assert 20_000 < len(data) < 200_000
    width, height = (int.from_bytes(data[at : at + 4]) for at in (16, 20))
    assert min(width, height) > 300
