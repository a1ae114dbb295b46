"""navrl new: what it writes is short, passes our checks, trains, and overwrites nothing."""

import ast
import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import navrl.evaluate
import navrl.train
from navrl.commands import new
from tests.command_line import process

ROOT = Path(__file__).resolve().parents[2]
TEMPLATES = ROOT / "navrl" / "commands" / "templates"
PARTS = {
    "reward": "fast",
    "opponent": "weave",
    "observation": "compass",
    "scenario": "anywhere",
    "planner": "careful",
    "agent": "reinforce",
    "env": "reach",
    "env --team": "meet",
}
MOST_LINES = {
    "reward": 6,
    "opponent": 15,
    "observation": 12,
    "scenario": 11,
    "env": 44,
    "team": 44,
}


def lines_of(text):
    """The lines of Python that hold code: none of blank lines, comments and docstrings; imports count."""
    tree = ast.parse(text)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    docstrings = {
        line
        for node in ast.walk(tree)
        if isinstance(node, documented) and ast.get_docstring(node) is not None
        for line in range(node.body[0].lineno, node.body[0].end_lineno + 1)
    }
    return [
        line
        for number, line in enumerate(text.splitlines(), start=1)
        if line.strip() and not line.lstrip().startswith("#") and number not in docstrings
    ]


def test_code_is_counted_without_blank_lines_comments_and_docstrings():
    text = (
        '"""Two\nlines."""\n\nimport os  # counts\n\n# no\ndef f():\n    """No."""\n    return os\n'
    )
    assert lines_of(text) == ["import os  # counts", "def f():", "    return os"]


@pytest.mark.parametrize("kind", MOST_LINES)
def test_a_template_is_no_longer_than_the_same_part_of_navrl(kind):
    found = lines_of((TEMPLATES / kind / "mylab" / "mypart.py").read_text(encoding="utf-8"))
    assert len(found) <= MOST_LINES[kind]
    assert max(map(len, found)) <= 100


def test_every_kind_has_a_template_and_the_other_way_round():
    templates = {path.name for path in TEMPLATES.iterdir() if path.is_dir()}
    assert {*new.KINDS, "team", "package"} == templates
    assert {*PARTS} == {*new.KINDS, "env --team"}


def written(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_a_package_and_a_second_part(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert new.main(["opponent", "weave_2"]) == 0
    printed = capsys.readouterr().out
    first = written(tmp_path / "weave_2")
    package = {"pyproject.toml", "README.md", "weave_2/__init__.py", "weave_2/py.typed"}
    part = {"weave_2/weave_2.py", "weave_2/conf/opponent/weave_2.yaml", "tests/test_weave_2.py"}
    assert set(first) == package | part
    assert b"class Weave2(Pilot)" in first["weave_2/weave_2.py"]
    assert b"_target_: weave_2.weave_2.Weave2\n" in first["weave_2/conf/opponent/weave_2.yaml"]
    commands = printed.partition("next:\n")[2].split("\n  ")
    assert commands[0].strip() == "cd weave_2"
    assert commands[1] == "navrl train 'plugins=[weave_2]' opponent=weave_2 experiment=debug"
    assert "\n".join(commands[1:]).rstrip("\n") in first["README.md"].decode()
    monkeypatch.chdir("weave_2")
    assert new.main(["reward", "weave", "--into", "."]) == 0
    printed = capsys.readouterr().out
    assert "cd " not in printed
    both = written(tmp_path / "weave_2")
    part = {"weave_2/weave.py", "weave_2/conf/reward/weave.yaml", "tests/test_weave.py"}
    assert set(both) == {*first} | part
    assert {name: both[name] for name in first} == first
    for text in both.values():
        assert not {b"mylab", b"mypart", b"MyPart", b"COMMANDS"} & set(text.split())


def project(folder, text):
    folder.mkdir()
    (folder / "pyproject.toml").write_text(text)


WRONG = {
    "a path": (["reward", "../fast"], "NAME = ../fast; expected a word such as fast_climb"),
    "a dot": (["reward", "my.fast"], "NAME = my.fast; expected a word"),
    "a capital": (["reward", "Fast"], "NAME = Fast; expected a word"),
    "a hyphen": (["reward", "my-fast"], "NAME = my-fast; expected a word"),
    "another alphabet": (["reward", "f\u0430st"], "expected a word"),
    "underscores first": (["reward", "__init__"], "expected a word"),
    "nothing": (["reward", ""], "NAME = ; expected a word"),
    "a line end": (["reward", "fast\n"], "expected a word"),
    "a keyword": (["reward", "class"], "NAME = class; expected a word"),
    "a value of YAML": (["reward", "null"], "NAME = null; expected a word"),
    "a part of ours": (
        ["reward", "shaped"],
        "NAME = shaped; expected a name that conf/reward does not",
    ),
    "a reward of ours": (
        ["env", "standard"],
        "NAME = standard; expected a name that conf/reward does not",
    ),
    "the standard library": (["reward", "json"], "NAME = json; expected a name that no module"),
    "not on this system": (["reward", "winreg"], "NAME = winreg; expected a name that no module"),
    "an installed package": (["reward", "torch"], "NAME = torch; expected a name that no module"),
    "ourselves": (["reward", "fast", "--into", "navrl"], "--into = navrl; expected a name that no"),
    "a hidden folder": (["reward", "fast", "--into", ".lab"], "--into = .lab; expected a word"),
    "a team of rewards": (
        ["reward", "fast", "--team"],
        "--team = with reward; expected it with env",
    ),
    "an unknown kind": (["rewards", "fast"], "invalid choice: 'rewards'"),
    "no name": (["reward"], "required: NAME"),
    "another folder": (["reward", "fast", "--into", "other"], "other exists and holds no package"),
    "a file": (["reward", "fast", "--into", "file"], "file exists and holds no package"),
    "a link": (["reward", "fast", "--into", "link"], "link exists and holds no package"),
    "broken": (["reward", "fast", "--into", "broken"], "broken exists and holds no package"),
    "numbers": (["reward", "fast", "--into", "numbers"], "numbers exists and holds no package"),
    "lost": (["reward", "fast", "--into", "lost"], "lost exists and holds no package"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_input_is_one_sentence_and_writes_nothing(tmp_path, monkeypatch, capsys, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other").mkdir()
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to("absent")
    project(tmp_path / "broken", "[")
    project(tmp_path / "numbers", "project = 3")
    project(tmp_path / "lost", '[project.entry-points."navrl.plugins"]\nlost = "lost"')
    before = set(tmp_path.rglob("*"))
    words, sentence = WRONG[name]
    assert new.main(words) == 2
    out, err = capsys.readouterr()
    assert not out
    (line,) = err.splitlines()
    assert line.startswith("navrl: error: ")
    assert sentence in line
    assert set(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    "taken", ["mylab/fast.py", "mylab/conf/reward/fast.yaml", "tests/test_fast.py"]
)
def test_nothing_is_overwritten(tmp_path, monkeypatch, capsys, taken):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "mylab", raising=False)
    assert new.main(["opponent", "weave", "--into", "mylab"]) == 0
    (tmp_path / "mylab" / taken).parent.mkdir(exist_ok=True)
    (tmp_path / "mylab" / taken).symlink_to("absent")
    before = set(tmp_path.rglob("*"))
    capsys.readouterr()
    assert new.main(["reward", "fast", "--into", "mylab"]) == 2
    assert f"mylab/{taken} exists; expected a name that is free" in capsys.readouterr().err
    assert set(tmp_path.rglob("*")) == before


# ---- whole commands ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """The folder of a package with a part of every kind."""
    place = tmp_path_factory.mktemp("outside")
    for (
        kind,
        name,
    ) in PARTS.items():  # not in this process, where other tests may have imported a mylab
        done = process(new.main, *kind.split(), name, "--into", "mylab", folder=place)
        assert done.returncode == 0, done.stderr
    return place / "mylab"


def run(program, folder):
    words = [sys.executable, "-m", *program]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.commands
def test_it_passes_our_rules_of_style(lab):
    rules = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["ruff"]
    selected = ",".join(rules["lint"]["select"])
    for words in (["check", "--select", selected, "--ignore", "ANN401"], ["format", "--check"]):
        done = run(["ruff", *words, "."], lab)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.commands
def test_its_wheel_holds_the_yaml_and_the_entry_point(lab, tmp_path):
    done = run(["hatchling", "build", "-t", "wheel", "-d", str(tmp_path)], lab)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = tmp_path.iterdir()
    with zipfile.ZipFile(wheel) as archive:
        assert "mylab/conf/reward/fast.yaml" in archive.namelist()
        (points,) = [name for name in archive.namelist() if name.endswith("entry_points.txt")]
        assert archive.read(points).decode() == "[navrl.plugins]\nmylab = mylab\n"


def own_tests():
    """Run pytest as in the folder of the package."""
    return int(pytest.main(["-q", "-p", "no:cacheprovider"]))


@pytest.mark.commands
def test_its_own_tests_pass(lab):
    done = process(own_tests, folder=lab)
    assert done.returncode == 0, done.stdout
    assert f"{len(PARTS) + 2} passed" in done.stdout  # two of each world


QUICK = ("experiment=debug", "logger=none", "eval_opponents=[]", "plugins=[mylab]")
OF_COMBAT = [f"{kind}={PARTS[kind]}" for kind in ("reward", "opponent", "observation", "scenario")]
OTHERS = [["agent=reinforce"], ["env=reach"], ["env=meet", "agent=mappo"]]


@pytest.mark.commands
@pytest.mark.parametrize("words", [OF_COMBAT, *OTHERS], ids=" ".join)
def test_it_trains_and_is_evaluated(lab, words):
    done = process(navrl.train.main, *words, *QUICK, folder=lab)
    assert done.returncode == 0, done.stderr
    words = ("checkpoint=latest", "plugins=[mylab]", "num_episodes=4")
    done = process(navrl.evaluate.main, *words, folder=lab)
    assert done.returncode == 0, done.stderr
    assert "4 episodes" in done.stdout
    names = {os.path.basename(path) for path in (lab / "outputs" / "latest").iterdir()}
    assert "metrics.jsonl" in names
