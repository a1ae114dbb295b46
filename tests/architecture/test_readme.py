"""Every command in README.md is run as written, in order, and every file it points at exists."""

import importlib
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from navrl import cli
from tests.command_line import Finished, process

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
# Installing and the whole suite cannot run inside the suite; that make runs them is tested below.
_ELSEWHERE = ("make ", "python3 -m venv", ".venv/bin/pip")


def blocks():
    """The commands of every bash block, without comments."""
    found = re.findall(r"```bash\n(.*?)```", README, re.DOTALL)
    lines = [[line.partition("  #")[0].strip() for line in block.splitlines()] for block in found]
    return [[line for line in block if line] for block in lines]


def to_run():
    """Those of them that can run here; a block needs nothing of another one."""
    can = [[line for line in block if not line.startswith(_ELSEWHERE)] for block in blocks()]
    return [block for block in can if block]


def program(line):
    """Return the program that the line starts."""
    return tuple(word for word in line.split() if word.startswith((".venv", "navrl.")))


@pytest.fixture
def elsewhere(tmp_path):
    """An empty working directory with the .venv of this interpreter, as the README writes it."""
    (tmp_path / ".venv").symlink_to(Path(sys.prefix))
    return tmp_path


@pytest.fixture(scope="module")
def started():
    """The programs that were started as a user does."""
    return set()


def by_shell(line, folder):
    """The line as a user types it."""
    done = subprocess.run(
        line, shell=True, cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )
    return Finished(done.returncode, done.stdout, done.stderr)


def forked(line, folder):
    """The same program and arguments, without 3 s of imports."""
    program, *words = shlex.split(line)
    if program == ".venv/bin/navrl":
        return process(cli.main, *words, folder=folder)
    assert program == ".venv/bin/python"
    assert words.pop(0) == "-m"
    return process(importlib.import_module(words[0]).main, *words[1:], folder=folder)


@pytest.mark.commands
@pytest.mark.timeout(1800)  # more than a dozen commands, on slow machines too
@pytest.mark.parametrize("block", to_run(), ids=lambda block: block[0].partition(" ")[2])
def test_commands_run_one_after_the_other(block, elsewhere, started):
    for line in block:
        start = forked if program(line) in started else by_shell
        started.add(program(line))
        done = start(line, elsewhere)
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    written = re.findall(r"output=(\S+)", " ".join(block))
    assert [name for name in written if not (elsewhere / name).is_file()] == []


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
@pytest.mark.parametrize(
    ("target", "command"),
    [
        ("train", "-m navrl.train env=combat agent=ppo experiment=demo"),
        ("test", "-m pytest"),
        ("check", "ruff format --check"),
    ],
)
def test_make_targets_run_what_the_readme_says(target, command):
    assert f"make {target}" in README
    done = subprocess.run(
        ["make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert command in done.stdout


def test_the_install_lines_are_those_of_make():
    done = subprocess.run(
        ["make", "--dry-run", "--always-make", "setup"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for line in (line for block in blocks() for line in block):
        if line.startswith(".venv/bin/pip install"):
            wanted = line.removeprefix(".venv/bin/pip install -c constraints.txt ").strip("'")
            assert wanted in done.stdout


def test_the_promise_comes_first():
    first_screen = README.splitlines()[:15]
    assert "make train" in "\n".join(first_screen)
    assert "make test" in "\n".join(first_screen)
