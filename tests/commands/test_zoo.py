"""navrl zoo and navrl reproduce: cards as a table, as text and as JSON; a training is judged by its band."""

import json

import pytest

import navrl.commands.reproduce as module
from navrl.cli import main as navrl
from navrl.commands.reproduce import main as reproduce
from navrl.commands.zoo import main as zoo
from navrl.run.cards import read_card
from navrl.run.intervals import Interval
from navrl.storage.find import shipped
from tests.command_line import process

NAME = "combat-scripts"


def test_the_table_has_a_line_for_every_policy(run):
    code, printed = run(zoo)
    assert code == 0
    lines = printed.out.splitlines()
    assert lines[0].split() == ["name", "world", "agent", "score", "size", "policy"]
    assert [line.split()[0] for line in lines[1 : 1 + len(shipped())]] == shipped()


def test_a_card_names_the_command_the_scores_and_the_band(run):
    card = read_card(NAME)
    code, printed = run(zoo, NAME)
    assert code == 0
    assert "navrl train env=combat agent=ppo experiment=demo seed=0\n" in printed.out
    assert card.sha256 in printed.out
    for score in card.scores:
        assert (
            f"{score.mean:.3f} ({score.low:.3f}..{score.high:.3f}) {score.setting}\n" in printed.out
        )
    assert f"{card.band[0]:.3f} .. {card.band[1]:.3f} against crank, from 5 seeds" in printed.out


def test_cards_as_json_are_their_files(run):
    _, printed = run(zoo, "--json")
    cards = json.loads(printed.out)
    assert [card["name"] for card in cards] == shipped()
    _, printed = run(zoo, NAME, "--json")
    assert json.loads(printed.out) == cards[shipped().index(NAME)]


@pytest.mark.parametrize("main", [zoo, reproduce])
def test_a_wrong_name_gets_the_nearest(run, main):
    code, printed = run(main, "combat-scrips")
    assert code == 2
    assert (
        "no policy called 'combat-scrips' comes with navrl; did you mean 'combat-scripts'?"
        in printed.err
    )


def test_reproduce_needs_a_name_and_checks_without_options(run):
    code, printed = run(reproduce)
    assert code == 2
    assert "no policy is named; expected one of" in printed.err
    code, printed = run(reproduce, NAME, "--check", "seed=1")
    assert code == 2
    assert "--check trains nothing, and got seed=1" in printed.err


@pytest.fixture
def trained(monkeypatch):
    """Trainings that take no time, of commands that are noted, with scores of the test's choice."""
    seen = {"code": 0, "mean": 0.0}

    def supervise(command, folder, restarts):
        seen["command"], seen["folder"] = command, folder
        return seen["code"]

    def measure(policy, card):
        seen["policy"] = policy
        return {s.setting: Interval(seen["mean"], 0.0, 1.0, 1000) for s in card.scores}

    monkeypatch.setattr(module, "supervise", supervise)
    monkeypatch.setattr(module, "measure", measure)
    return seen


def test_a_training_within_the_band_reproduces_the_card(run, trained):
    card = read_card(NAME)
    for mean, code in ((card.band[0], 0), (card.band[0] - 1e-6, 1), (card.band[1], 0)):
        trained["mean"] = mean
        assert run(reproduce, NAME, "seed=7")[0] == code
    words = trained["command"][1:]
    assert words[:2] == ["-m", "navrl.train"]
    assert words[2:5] == list(card.options)
    assert words[5:7] == ["seed=0", "seed=7"]  # the last one counts
    assert words[7] == f"hydra.run.dir={trained['folder']}"
    assert trained["policy"] == str(trained["folder"])


def test_a_training_that_fails_or_is_stopped_is_not_evaluated(run, trained):
    trained["code"] = 130
    assert run(reproduce, NAME)[0] == 130
    assert "policy" not in trained


def test_a_check_compares_every_setting_with_its_own_interval(run, trained):
    card = read_card(NAME)
    trained["mean"] = card.scores[0].mean  # which is outside of those of other opponents
    code, printed = run(reproduce, NAME, "--check", "--json", "out.json")
    assert code == 1
    assert trained["policy"] == f"zoo:{NAME}"
    assert "command" not in trained
    outside = [s.setting for s in card.scores if not s.low <= card.scores[0].mean <= s.high]
    assert outside
    assert f"not reproduced: win {', '.join(outside)} lies outside" in printed.out


@pytest.mark.commands
def test_policies_by_their_names_in_every_command(tmp_path):
    words = ("opponent=checkpoint:zoo:combat-scripts", "env.sim.time_limit_s=20")
    end = process(
        navrl,
        "evaluate",
        "checkpoint=zoo:combat-scripts",
        "num_episodes=4",
        *words,
        folder=tmp_path,
    )
    assert "zoo:combat-scripts against zoo:combat-scripts: 4 episodes" in end.stdout
    end = process(navrl, "replay", "zoo:combat-scripts", *words, folder=tmp_path)
    assert end.returncode == 0
    assert len(list((tmp_path / "outputs" / "replays").glob("combat-scripts-*.html"))) == 1
    small = ("num_envs=8", "total_frames=128", "eval_opponents=[]", "logger=none")
    own = ("agent.network.hidden_sizes=[256,256]", "init=zoo:combat-scripts", "opponent=checkpoint")
    own = (*own, "opponent.checkpoint=zoo:combat-scripts", words[1])
    end = process(navrl, "train", "experiment=debug", *small, *own, folder=tmp_path)
    assert "beginning with 9 of 9 tensors of the policy" in end.stdout
    # The run needs nobody to repeat whom it played against, and says so wherever it is taken.
    end = process(navrl, "evaluate", "num_episodes=4", folder=tmp_path)
    assert "against zoo:combat-scripts: 4 episodes" in end.stdout
    end = process(navrl, "checkpoint", "verify", "zoo:combat-scripts", folder=tmp_path)
    assert end.stdout.startswith("ok")
