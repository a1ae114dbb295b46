"""Ctrl-C while a command imports: exit code 130 and one line; programs that import navrl notice nothing."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from navrl.run import early

ROOT = Path(__file__).resolve().parents[2]
# What stands for torch here: it takes its time, and the user loses patience.
SLOW = "import os, signal, time; os.kill(os.getpid(), signal.SIGINT); time.sleep(20)"


def run(tmp_path, *arguments):
    (tmp_path / "torch.py").write_text(SLOW)
    (tmp_path / "navrl").write_text("import sys; from navrl.cli import main; sys.exit(main())")
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    "arguments",
    [["-m", "navrl.train"], ["-m", "navrl.evaluate"], ["navrl", "doctor"], ["navrl", "replay"]],
)
def test_ctrl_c_during_imports_ends_with_one_line(tmp_path, arguments):
    done = run(tmp_path, *arguments)
    assert (done.returncode, done.stdout, done.stderr) == (
        130,
        "",
        "navrl: stopped before anything began\n",
    )


def test_a_program_that_imports_navrl_keeps_its_ctrl_c(tmp_path):
    done = run(tmp_path, "-c", "import navrl.train")
    assert done.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in done.stderr


def test_a_command_that_listens_gets_its_interrupt_and_nobody_elses_handler_is_touched():
    before = signal.getsignal(signal.SIGINT)
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # as after nohup
        early.leave_at_once()
        early.listen()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        signal.signal(signal.SIGINT, signal.default_int_handler)
        early.leave_at_once()
        assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
        early.listen()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


def test_the_second_training_of_a_sweep_is_no_older_than_itself(monkeypatch):
    now = iter([5.0, 100.0, 103.0])
    monkeypatch.setattr(early, "_jobs_began", [])
    monkeypatch.setattr(early, "_IMPORTED", 1.0)
    monkeypatch.setattr(early.time, "monotonic", lambda: next(now))
    early.job_begins()
    assert early.job_age_s() == 4.0
    early.job_begins()
    assert early.job_age_s() == 3.0
