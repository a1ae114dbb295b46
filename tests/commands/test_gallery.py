"""navrl gallery: a run and a policy that comes along in one folder, and plain words about wrong inputs."""

import json
import re

import pytest

from navrl.commands.gallery import main
from tests.runs import write_run


def entries(folder):
    """Return the entries of the index."""
    text = (folder / "index.html").read_text(encoding="utf-8")
    return json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])["entries"]


@pytest.mark.commands
def test_a_policy_that_comes_along_and_a_run_without_checkpoints(run, tmp_path):
    write_run(tmp_path / "outputs/alice_and_bob-hmasd/one")
    code, printed = run(
        main,
        "zoo:coverage",
        "outputs/alice_and_bob-hmasd/one",
        "--into",
        "public",
        "num_episodes=2",
    )
    assert code == 0, printed.err
    policy, learned = entries(tmp_path / "public")
    assert [link["name"] for link in policy["links"]] == ["best episode", "worst episode"]
    assert policy["scores"][0].startswith("score 0.596 (0.594..0.598)")  # as its card has it
    assert [link["file"] for link in learned["links"]] == ["alice_and_bob-hmasd-one/report.html"]
    assert learned["scores"] == ["success 0.9, held-out episodes in alice_and_bob"]
    assert learned["curve"]["title"] == "success"
    for link in policy["links"] + learned["links"]:
        text = (tmp_path / "public" / link["file"]).read_text(encoding="utf-8")
        assert "default-src 'none'" in text
        assert not re.search(r"https?://", text.replace("http://www.w3.org/2000/svg", ""))


@pytest.mark.commands
def test_a_page_of_navigation_says_that_it_holds_all_episodes(run, tmp_path):
    code, printed = run(main, "zoo:navigation", "num_episodes=2")
    assert code == 0, printed.err
    (link,) = entries(tmp_path / "gallery")[0]["links"]
    assert link["text"].endswith(", and all 2 episodes")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nowhere"], "nowhere"),
        (["zoo:combat-leage"], "combat-league"),
        (["mine", "--into", "a/b"], "--into a/b; expected a folder in an existing one"),
        (["mine", "num_episodes=0"], "num_episodes = 0"),
        (["mine", "opponent=crank"], "opponent=crank: a gallery shows policies in the worlds"),
        (["mine", "--into", "mine"], "mine is there and holds no gallery"),
    ],
)
def test_what_cannot_be_is_one_sentence(run, tmp_path, arguments, sentence):
    write_run(tmp_path / "mine")
    before = sorted(tmp_path.rglob("*"))
    code, printed = run(main, *arguments)
    assert code == 2
    (line,) = printed.err.splitlines()
    assert line.startswith("navrl: error: ")
    assert sentence in line
    assert sorted(tmp_path.rglob("*")) == before
