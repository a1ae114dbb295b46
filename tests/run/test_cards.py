"""The policies that come with navrl are the files of their cards, and act; bands are Student's interval."""

import contextlib
import hashlib
import math
import re

import pytest
import torch
from torchrl.envs.utils import ExplorationType, set_exploration_type

from navrl.run.build import build_env
from navrl.run.cards import Score, band, measure, read_card
from navrl.run.policies import build_policy, find_policy
from navrl.storage.checkpoint import load
from navrl.storage.find import ZOO_FOLDER, shipped

MOST_BYTES, MOST_BYTES_IN_ALL = 400_000, 4_000_000
NAMES = shipped()
ROUNDED = 2e-6  # cards have six decimals


@pytest.mark.parametrize("name", NAMES)
def test_the_file_is_that_of_its_card(name):
    card = read_card(name)
    content = (ZOO_FOLDER / f"{name}.ckpt").read_bytes()
    assert card.name == name
    assert card.bytes == len(content) <= MOST_BYTES
    assert card.sha256 == hashlib.sha256(content).hexdigest()
    state = load(ZOO_FOLDER / f"{name}.ckpt")
    assert list(state["agent"]) == ["policy"]  # no critic, no optimizer
    assert card.frames == state["frames"]
    assert (card.env, card.agent) == (state["choices"]["env"], state["choices"]["agent"])
    assert card.seed == state["config"]["seed"]


@pytest.mark.parametrize("name", NAMES)
def test_a_card_is_complete(name):
    card = read_card(name)
    assert card.does.endswith(".")
    assert card.options
    assert card.minutes > 0.0
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", card.date)
    assert re.fullmatch(r"[0-9a-f]{40}", card.commit)
    assert all((card.machine, card.version, card.licence))
    assert card.episodes == 1000
    for score in card.scores:
        assert 0.0 <= score.low <= score.mean <= score.high <= 1.0
    low, high = card.band
    assert low <= card.scores[0].mean <= high
    assert bool(card.other_seeds) != (card.margin is not None)


def test_all_files_together_are_small_and_each_has_a_card():
    assert sum(path.stat().st_size for path in ZOO_FOLDER.iterdir()) <= MOST_BYTES_IN_ALL
    assert {path.stem for path in ZOO_FOLDER.glob("*.json")} == set(NAMES)
    assert {path.suffix for path in ZOO_FOLDER.iterdir()} == {".ckpt", ".json"}


@pytest.mark.parametrize("name", NAMES)
def test_a_policy_acts(name):
    found = find_policy(f"zoo:{name}", device="cpu")
    env = build_env(found.config, num_envs=2, seed=0, compile_mode="off")
    policy = build_policy(f"zoo:{name}", found.config, found.state, env)
    with contextlib.closing(env), torch.no_grad():
        with set_exploration_type(ExplorationType.DETERMINISTIC):
            frames = env.reset()
            for _ in range(3):
                stepped, frames = env.step_and_maybe_reset(policy(frames))
        assert env.full_action_spec[env.action_key].is_in(stepped.get(env.action_key))
        assert bool(stepped.get(("next", "episode")).isfinite().all())


def test_the_band_of_several_seeds_is_students_interval_of_one_more():
    score = Score("against nobody", (), mean=0.5, low=0.498, high=0.502)
    # 0.49, 0.50, 0.51: mean 0.5, standard deviation 0.01; t(0.975, 2) = 4.302653 in printed tables.
    half = 4.302653 * 0.01 * math.sqrt(1.0 + 1.0 / 3.0) + 0.002
    assert band(score, [0.49, 0.51], None) == pytest.approx((0.5 - half, 0.5 + half), abs=1e-7)
    assert band(score, [0.2, 0.8], None) == (0.0, 1.0)  # the objective is a share


def test_seeds_that_all_score_the_same_have_the_evaluations_band():
    score = Score("", (), mean=1.0, low=0.996, high=1.0)
    assert band(score, [1.0, 1.0, 1.0], None) == (pytest.approx(0.998), 1.0)


def test_one_seed_has_a_margin():
    score = Score("", (), mean=0.6, low=0.57, high=0.63)
    assert band(score, [], 0.05) == (pytest.approx(0.52), pytest.approx(0.68))
    with pytest.raises(ValueError, match="neither"):
        band(score, [], None)


@pytest.mark.learning
@pytest.mark.parametrize("name", NAMES)
def test_a_policy_scores_as_its_card_says(name):
    card = read_card(name)
    for setting, found in measure(f"zoo:{name}", card).items():
        (score,) = [each for each in card.scores if each.setting == setting]
        assert score.low - ROUNDED <= found.mean <= score.high + ROUNDED


def test_the_documentation_has_the_scores_of_the_cards():
    page = (ZOO_FOLDER.parents[1] / "docs" / "zoo.md").read_text(encoding="utf-8")
    for card in map(read_card, NAMES):
        mean, low, high = card.scores[0][2:]
        shown = f"{card.objective} {mean:.3f} ({low:.3f}..{high:.3f}) {card.scores[0].setting}"
        assert f"| `{card.name}` | {card.does} | {shown} |\n" in page


@pytest.mark.parametrize(
    ("words", "opening"),
    [
        ([], "MidRandom"),
        (["scenario=box10"], "Box"),
        (["eval_scenario=rear"], "Rear"),
        (["scenario=box10", "eval_scenario=rear"], "Rear"),
    ],
)
def test_a_scenario_of_the_command_comes_before_that_of_the_runs_evaluations(words, opening):
    found = find_policy("zoo:combat-generalist", device="cpu", overrides=words)
    assert found.config.scenario._target_.rpartition(".")[2] == opening
