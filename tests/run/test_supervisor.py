"""restarts=N: what crashed is started again, what was wrong or stopped by a signal is not."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from navrl.run.supervisor import supervise

# Ends as the first word of the list in the file says, and strikes it out; "begins" writes a status first.
CHILD = """
import json, os, pathlib, signal, sys, time
signal.pthread_sigmask(signal.SIG_SETMASK, [])  # the supervisor has blocked some
folder = pathlib.Path(sys.argv[1])
words = json.loads((folder / "plan.json").read_text())
(folder / "plan.json").write_text(json.dumps(words[1:]))
if sys.argv[2] == "begins":
    (folder / "status.json").write_text(json.dumps(
        {"pid": os.getpid(), "state": "running", "frames": 64}))
if words[0] == "wait":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.signal(signal.SIGUSR1, lambda *_: (folder / "saved").touch())
    (folder / "waiting").touch()
    time.sleep(60)
if words[0] < 0:
    os.kill(os.getpid(), -words[0])
sys.exit(words[0])
"""


def attempts(folder, plan, restarts, *, begins=True):
    """The exit code, and how many processes there were."""
    (folder / "plan.json").write_text(json.dumps(plan))
    begin = "begins" if begins else "fails early"
    code = supervise([sys.executable, "-S", "-c", CHILD, str(folder), begin], folder, restarts)
    return code, len(plan) - len(json.loads((folder / "plan.json").read_text()))


@pytest.mark.parametrize(
    ("plan", "restarts", "code", "processes"),
    [
        ([0, 9], 3, 0, 1),
        ([-9, 1, 0, 9], 3, 0, 3),
        ([-9, -11, -9, 9], 2, 137, 3),
        ([1, 1, 9], 1, 1, 2),
        ([2, 9], 3, 2, 1),  # a wrong option
        ([130, 9], 3, 130, 1),  # saved after a signal
        ([143, 9], 3, 143, 1),
        ([-15, 9], 3, 143, 1),
        ([-1, 9], 3, 129, 1),
    ],
)
def test_crashes_and_only_crashes_are_started_again(
    tmp_path, capfd, plan, restarts, code, processes
):
    assert attempts(tmp_path, plan, restarts) == (code, processes)
    notes = capfd.readouterr().err.splitlines()
    assert len(notes) == sum(word in (1, -9, -11) for word in plan[:processes])
    assert not notes or notes[0].startswith("navrl: training ")


def test_a_killed_training_has_failed(tmp_path):
    assert attempts(tmp_path, [-9, -9], 1) == (137, 2)
    status = json.loads((tmp_path / "status.json").read_text())
    assert (status["state"], status["reason"]) == ("failed", "was killed by SIGKILL")
    assert status["frames"] == 64


def test_what_fails_before_it_trains_is_not_started_again(tmp_path):
    assert attempts(tmp_path, [1, 9], 3, begins=False) == (1, 1)


def test_a_signal_is_relayed_and_ends_it(tmp_path):
    def wait_for(name):
        while not (tmp_path / name).exists():
            time.sleep(0.01)

    def tell():
        wait_for("waiting")
        os.kill(os.getpid(), signal.SIGUSR1)  # ends nothing
        wait_for("saved")
        os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=tell)
    thread.start()
    assert attempts(tmp_path, ["wait", 9], 3) == (143, 1)
    thread.join()
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_signal_between_two_attempts_is_not_lost(tmp_path, monkeypatch):
    """It comes when the first child is gone and the second not there yet, which would train to its end."""
    start = subprocess.Popen

    def notes(*arguments, **options):
        if (tmp_path / "again").exists():
            os.kill(os.getpid(), signal.SIGTERM)
        (tmp_path / "again").touch()
        return start(*arguments, **options)

    monkeypatch.setattr(subprocess, "Popen", notes)
    assert attempts(tmp_path, [1, "wait", 9], 3)[0] == 143
