"""docs/your_world.md: its blocks make a package that trains, evaluates and replays."""

import json
import re
import shlex
from pathlib import Path

import pytest

from navrl import cli
from tests.command_line import process

ROOT = Path(__file__).resolve().parents[2]
AT_THE_END = ", at the end"
# A training for a few seconds in place of a minute.
SHORT = (
    "logger=none",
    "compile=off",
    "total_frames=2048",
    "num_envs=16",
    "rollout_steps=32",
    "eval_episodes=16",
)


def blocks():
    """The language and the text of every block."""
    text = (ROOT / "docs" / "your_world.md").read_text(encoding="utf-8")
    return re.findall(r"```(\w+)\n(.*?)```", text, re.DOTALL)


def write(folder, text):
    """Write a block as its first line says."""
    first, _, rest = text.partition("\n")
    name, how, _ = first.removeprefix("# ").partition(AT_THE_END)
    path = folder / name
    between = "\n" if rest.startswith(" ") else "\n\n"  # of a class, of a module
    before = path.read_text(encoding="utf-8") + between if how else ""
    path.write_text(before + rest, encoding="utf-8")


def follow(folder, changed):
    """Do what the page says, with changed(words) for every command; return what each of them printed."""
    printed = {}
    for kind, text in blocks():
        if kind != "bash":
            write(folder, text)
            continue
        for words in map(shlex.split, text.splitlines()):
            if words[0] == "cd":
                folder = folder / words[1]
                continue
            main = {"navrl": cli.main, "python": pytest.main}[words[0]]
            arguments = words[1:] if words[0] == "navrl" else words[3:]
            done = process(main, *changed(arguments), folder=folder)
            assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
            printed[words[1]] = done.stdout
    return folder, printed


def test_the_seeds_have_the_mean_and_the_range_that_the_page_says():
    text = " ".join((ROOT / "docs" / "your_world.md").read_text(encoding="utf-8").split())
    said = re.search(r"leads to (.*?): on average (\S+), from (\S+) to (\S+)\. ", text).groups()
    seeds = [float(number) for number in re.findall(r"0\.\d+", said[0])]
    assert len(seeds) == 5
    assert [round(sum(seeds) / 5, 3), min(seeds), max(seeds)] == [float(n) for n in said[1:]]
    assert f"success {seeds[0]:.4f}" in text  # what the commands of the page print


@pytest.mark.commands
def test_every_block_runs(tmp_path):
    shortened = lambda words: [*words, *SHORT] if words[:1] == ["train"] else words  # noqa: E731
    folder, printed = follow(tmp_path, shortened)
    assert "success" in printed["evaluate"]
    (page,) = folder.glob("outputs/**/*.html")
    (found,) = re.findall(r'id="data">(.*?)</script>', page.read_text(encoding="utf-8"))
    labels = [shape["label"] for shape in json.loads(found)["shapes"]]
    assert labels == ["station", "", "port", "velocity", "tug"]
