"""The console script: what it lists exists, what it does not know it says."""

import os
import re
import signal
import subprocess
import sys
import types
from pathlib import Path

import pytest

from navrl import cli
from tests.command_line import command
from tests.runs import write_run

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def probe(monkeypatch):
    """A command that notes the arguments it received and returns `result`."""
    module = types.ModuleType("navrl_probe")
    module.seen, module.result = [], None

    def main():
        module.seen.append(list(sys.argv))
        return module.result

    module.main = main
    monkeypatch.setitem(sys.modules, "navrl_probe", module)
    probe = cli.Command("navrl_probe", "probe things", "navrl probe --all")
    monkeypatch.setitem(cli.COMMANDS, "probe", probe)
    monkeypatch.setattr(sys, "argv", ["/bin/navrl", "left", "over"])
    return module


@pytest.mark.parametrize(
    ("result", "code"), [(None, 0), (0, 0), (3, 3), (0.75, 0)]
)  # train returns a metric for sweepers, which is no exit code
def test_a_command_receives_the_rest_of_the_line(probe, result, code):
    probe.result = result
    assert cli.main(["probe", "env=combat", "--help"]) == code
    assert probe.seen == [["/bin/navrl", "env=combat", "--help"]]


@pytest.mark.parametrize("word", ["--help", "-h", "help"])
def test_help_lists_every_command_with_an_example(probe, capsys, word):
    assert cli.main([word]) == 0
    printed = capsys.readouterr().out
    for name, listed in cli.COMMANDS.items():
        assert f"  {name}" in printed
        assert listed.summary in printed
        assert f"  {listed.example}\n" in printed
    assert re.search(r"^  probe +probe things$", printed, re.MULTILINE)


def test_no_command_is_a_mistake_and_shows_the_help(capsys):
    assert cli.main([]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == cli.help_text()


def test_an_unknown_command_suggests_the_closest(capsys):
    assert cli.main(["trian", "env=combat"]) == 2
    assert capsys.readouterr().err == (
        "navrl: error: Unknown command 'trian'; did you mean 'train'? (see: navrl --help)\n"
    )


def test_a_word_like_no_command_lists_them(capsys):
    assert cli.main(["xyzzy"]) == 2
    error = capsys.readouterr().err
    assert all(name in error for name in cli.COMMANDS)
    assert error.count("\n") == 1


def test_version(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("navrl 0.")


@pytest.mark.parametrize("name", [name for name in cli.COMMANDS if name != "train"])
def test_the_help_of_every_command_shows_examples(name, capsys):
    assert command(cli.main, name, "--help") in (0, None)
    printed = capsys.readouterr().out
    assert "xamples" in printed  # Hydra's begins with a capital
    assert f"navrl {name} " in printed or f"navrl.{name} " in printed


def test_the_package_runs_as_the_console_script_does():
    words = [sys.executable, "-m", "navrl", "--version"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("navrl 0.")


@pytest.mark.parametrize("words", [["--help"], ["runs", "ls", "outputs"]])
def test_a_reader_that_leaves_ends_a_command_quietly(tmp_path, words):
    write_run(tmp_path / "outputs/one")
    read, write = os.pipe()
    os.close(read)
    line = [sys.executable, "-m", "navrl.cli", *words]
    done = subprocess.run(
        line,
        cwd=tmp_path,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=write,
        stderr=subprocess.PIPE,
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, b"")


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from navrl.cli import main; main(['--help']);"
        "heavy = {'torch', 'hydra', 'wandb', 'tensordict'} & set(sys.modules);"
        "sys.stderr.write(repr(heavy))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stderr == "set()"
