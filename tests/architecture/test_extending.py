"""The examples of docs/extending.md, added to a copy of the package, train."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.commands
ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
AT_THE_END, IN_COMMANDS = ", at the end", ", in COMMANDS"
INDEPENDENT = ("collector", "checkpoint", "logger")
# Imports once, then one child for each command.
DRIVER = """
import os, sys, torch, tensordict, torchrl.collectors, torchrl.objectives, hydra, pytest
import navrl.train, navrl.evaluate
from navrl import cli
root = os.getcwd()
assert cli.__file__.startswith(root), cli.__file__
torch.set_num_threads(1)
for line in open("commands.txt"):
    program, *words = line.rstrip("\\n").split("\\t")
    if program == "cd":
        os.chdir(os.path.join(root, *words))
    child = os.fork()
    if not child:
        sys.exit({"cd": lambda _: 0, "navrl": cli.main, "pytest": pytest.main}[program](words))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print("exit", code, line, end="", flush=True)
"""


def blocks():
    """Return the language and the lines of every example."""
    return re.findall(r"```(\w+)\n(.*?)```", DOCUMENT, re.DOTALL)


def commands():
    """Return the words of every command; python -m navrl.train is navrl train, and cd lasts for a block."""
    for kind, text in blocks():
        if kind == "bash":
            lines = [re.sub(r"^python -m (navrl)?\.?", r"\1 ", line) for line in text.splitlines()]
            yield from (shlex.split(line) for line in lines)
            if "cd " in text:
                yield ["cd", ""]


def together():
    """Return the same commands; those that change one part of env=combat become one, which saves time."""
    merged, others = ["navrl", "train"], []
    for words in commands():
        if words[1:2] == ["train"] and words[2].partition("=")[0] in INDEPENDENT:
            merged += [word for word in words[2:] if word not in merged]
        else:
            others.append(words)
    return [merged, *others]


def add(root, place, text):
    """Write a block as its first line says."""
    name, *rest = re.split(r"(?=, )", place, maxsplit=1)
    path, how = root / name, "".join(rest)
    path.parent.mkdir(parents=True, exist_ok=True)
    if how == AT_THE_END:
        path.write_text(f"{path.read_text(encoding='utf-8')}\n\n{text}", encoding="utf-8")
    elif how == IN_COMMANDS:
        before = path.read_text(encoding="utf-8")
        path.write_text(
            before.replace("COMMANDS = {\n", f"COMMANDS = {{\n{text}", 1), encoding="utf-8"
        )
    else:
        assert not how, place
        assert not path.exists(), f"{place} exists in the package"
        path.write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Return what the commands wrote, in a copy of the package with every example."""
    folder = tmp_path_factory.mktemp("extended")
    for name in ("navrl", "conf"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for kind, text in blocks():
        if kind != "bash":
            first, _, rest = text.partition("\n")
            add(folder, first.removeprefix("# "), rest)
    lines = ["\t".join([*words, *quiet(words)]) for words in together()]
    (folder / "commands.txt").write_text("\n".join(lines), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", DRIVER],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), "NAVRL_CONF": str(folder / "conf")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return folder, done.stdout, done.stderr


def quiet(words):
    """Return options that make a training no slower than it has to be."""
    given = {word.partition("=")[0] for word in words}
    trains = words[1:2] == ["train"]
    least = {"logger": "none", "eval_opponents": "[]", "compile": "off"} if trains else {}
    return [f"{name}={value}" for name, value in least.items() if name not in given]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "words",
    [words for words in together() if words[0] != "cd"],
    ids=lambda words: " ".join(words[:3]),
)
def test_an_example_runs(finished, words):
    _, stdout, stderr = finished
    ended = re.findall(rf"^exit (-?\d+) {re.escape(chr(9).join(words))}", stdout, re.MULTILINE)
    assert ended == ["0"], f"{stdout}\n{stderr}"


@pytest.mark.timeout(300)
def test_the_parts_do_their_work(finished):
    folder, stdout, _ = finished
    rows = [path.read_text(encoding="utf-8") for path in folder.rglob("metrics.jsonl")]
    for metric in ("reward/progress", "collect/ended", "curriculum/stage"):
        assert any(f'"{metric}"' in text for text in rows), metric
    assert list(folder.glob("copies/*.ckpt"))
    assert list(folder.glob("outputs/**/metric.txt"))
    assert "opponent crank from 256 frames on" in stdout
    assert "512 frames" in stdout
