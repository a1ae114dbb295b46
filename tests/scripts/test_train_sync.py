"""scripts/train_sync.sh: what it checks, what it starts, what it passes on, and what it leaves alone."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "train_sync.sh"
# In place of .venv/bin/python: it records its arguments, and is as quick as the shell.
PRETENDER = f"""#!/usr/bin/env bash
echo "$@" >> called
case "$*" in
  *navrl.commands.doctor*) echo "ok     python  3.11"
     echo "${{VERDICT-navrl is ready}}"; exit "${{UNFIT-0}}" ;;
  *tensorboard.main*) echo $$ > board; exec sleep 60 ;;
  -c*) exec {sys.executable} "$@" ;;
  *) trap 'exit 130' INT; trap 'exit 143' TERM; echo $$ > trainer
     for _ in $(seq ${{STEPS-1}}); do sleep 0.05; done; exit "${{CODE-0}}" ;;
esac
"""


@pytest.fixture
def launcher(tmp_path):
    """launcher(*arguments, **environment) -> the launcher, started in a checkout that only pretends."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(SCRIPT, tmp_path / "scripts")
    python = tmp_path / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(PRETENDER)
    python.chmod(0o755)

    started = []

    def start(*arguments, **environment):
        process = subprocess.Popen(
            ["scripts/train_sync.sh", *arguments],
            cwd=tmp_path,
            env=os.environ | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return started[-1]

    yield start
    for each in started:
        each.communicate(timeout=60)


def called(folder):
    """Return the started commands, except the search for a port."""
    lines = (folder / "called").read_text().splitlines()
    return [line for line in lines if line.startswith("-m")]


def waited_for(condition):
    deadline_s = time.monotonic() + 30.0
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


def lives(pid):
    """Return whether the process runs; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def number_in(path):
    """Return the number that a process has written into the file."""
    waited_for(lambda: path.is_file() and path.read_text().endswith("\n"))
    return int(path.read_text())


def test_help_starts_nothing(launcher, tmp_path):
    out, err = launcher("--help").communicate(timeout=60)
    assert out.startswith("usage: scripts/train_sync.sh [--tensorboard [PORT]]")
    assert err == ""
    assert not (tmp_path / "called").exists()


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        ([], "navrl.train env=alice_and_bob agent=hmasd experiment=alice_hmasd"),
        (
            ["seed=1", "-m", "a.b=[1, 2]"],
            "navrl.train env=alice_and_bob agent=hmasd experiment=alice_hmasd seed=1 -m a.b=[1, 2]",
        ),
        (["agent=mappo", "seed=1"], "navrl.train agent=mappo seed=1"),
        (["seed=1", "experiment=debug"], "navrl.train seed=1 experiment=debug"),
        (["--resume", "total_frames=9"], "navrl.train resume=latest total_frames=9"),
        (["--resume=outputs/a b"], "navrl.train resume=outputs/a b"),
        (["--eval-only", "num_episodes=2"], "navrl.evaluate checkpoint=latest num_episodes=2"),
        (["--eval-only=best"], "navrl.evaluate checkpoint=best"),
    ],
)
def test_what_is_not_its_own_is_passed_on(launcher, tmp_path, arguments, command):
    started = launcher(*arguments, CODE="7")
    _, err = started.communicate(timeout=60)
    assert (started.returncode, err) == (7, "")
    assert called(tmp_path) == ["-m navrl.commands.doctor", f"-m {command}"]


def test_a_dry_run_checks_and_says_what_it_would_do(launcher, tmp_path):
    out, _ = launcher("--dry-run", "--tensorboard", "env=x", "seed=1 2").communicate(timeout=60)
    assert out.startswith("navrl is ready: ")
    assert out.endswith("-m navrl.train env=x seed=1\\ 2 logger=tensorboard \n")
    assert called(tmp_path) == ["-m navrl.commands.doctor"]


@pytest.mark.parametrize(
    ("arguments", "environment", "sentence", "checked"),
    [
        (["--resume", "--eval-only=best"], {}, "--resume and --eval-only were both given", 0),
        (
            [],
            {"UNFIT": "1", "VERDICT": "1 of 9 checks are wrong"},
            "this installation is not fit",
            1,
        ),
        (["--tensorboard", "PORT"], {}, "no free port (--tensorboard PORT); name another", 1),
    ],
)
def test_what_cannot_start_is_one_sentence(
    launcher, tmp_path, arguments, environment, sentence, checked
):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        started = launcher(*(word.replace("PORT", port) for word in arguments), **environment)
        _, err = started.communicate(timeout=60)
    assert started.returncode == 2
    assert f"train_sync: error: {sentence.replace('PORT', port)}" in err
    assert environment.get("VERDICT", "") in err
    commands = called(tmp_path) if (tmp_path / "called").exists() else []
    assert commands == checked * ["-m navrl.commands.doctor"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_reach_the_training_itself(launcher, tmp_path, number, code):
    started = launcher(STEPS="600")
    assert number_in(tmp_path / "trainer") == started.pid, "the training is the launcher's process"
    started.send_signal(number)
    assert started.wait(60) == code


def test_tensorboard_ends_with_the_run_and_nothing_else_does(launcher, tmp_path):
    foreign = subprocess.Popen(
        ["bash", "-c", "exec -a 'tensorboard.main --logdir outputs' sleep 60"], cwd=tmp_path
    )
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        started = launcher("--tensorboard", str(port), STEPS="600")
        board = number_in(tmp_path / "board")
        assert lives(board)
        os.kill(number_in(tmp_path / "trainer"), signal.SIGTERM)
        out, _ = started.communicate(timeout=60)
        assert started.returncode == 143
        assert f"(process {board}): http://localhost:{port}/" in out
        waited_for(lambda: not lives(board))
        assert foreign.poll() is None
    finally:
        foreign.kill()
        foreign.wait()
    assert f"-m tensorboard.main --logdir outputs --port {port}" in called(tmp_path)
    # Two processes write their arguments, in either order.
    assert any(
        line.endswith("experiment=alice_hmasd logger=tensorboard") for line in called(tmp_path)
    )
