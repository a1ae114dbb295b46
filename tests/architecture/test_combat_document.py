"""docs/combat.md names every choice and every statistic that there is."""

import re

import pytest

from navrl.config.compose import build


@pytest.fixture
def text(root):
    return (root / "docs" / "combat.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("group", ["reward", "scenario", "observation", "action"])
def test_every_option_has_its_line(root, text, group):
    table = text.partition(f"| `{group}=` |")[2].partition("\n\n")[0]
    documented = {
        name
        for line in table.splitlines()[2:]
        for name in re.findall(r"`(\w+)`", line.split("|")[1])
    }
    others = {path.stem for path in (root / "conf" / "env").glob("*.yaml")} - {"combat"}
    options = {
        path.stem
        for path in (root / "conf" / group).glob("*.yaml")
        if "for env=" not in path.read_text(encoding="utf-8").partition("\n")[0]
    }
    assert documented == options - others


def test_every_statistic_has_its_line(text, compose_cfg):
    env = build(compose_cfg("compile=off").env)(num_envs=1, device="cpu", seed=0)
    for name in env.episode_keys:
        if not name.startswith(("_", "reward_")):
            assert re.search(rf"^\| [^|]*`{name}`", text, re.MULTILINE), name


def test_the_files_it_points_at_exist(root, text):
    places = re.findall(r"\]\(([^)]+)\)", text)
    assert places
    assert [place for place in places if not (root / "docs" / place).exists()] == []
