"""The wandb mirror: inside the run directory, silent, never asking, never waiting long."""

import importlib.machinery
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from navrl.loggers import wandb as module
from navrl.loggers.wandb import WandbLogger

pytestmark = pytest.mark.commands

ROOT = Path(__file__).resolve().parents[2]
OPTIONS = {
    "name": "combat-ppo",
    "config": {"seed": 1, "env": {"objective": "win"}},
    "mode": "offline",
    "project": "navrl",
    "entity": None,
    "group": None,
    "job_type": None,
    "notes": "a try",
    "tags": ["a"],
    "replay": False,
    "checkpoints": False,
    "init_timeout_s": 3.0,
}
SCRIPT = """
import json, logging, os, pathlib, signal, sys, time
logging.basicConfig(format="%(levelname)s %(message)s", stream=sys.stdout)
from navrl.loggers import WandbLogger
options = json.loads(sys.argv[2])
logger = WandbLogger(directory=pathlib.Path(sys.argv[1]), **options)
for i in range(1, 4):
    logger.log({"loss/value": i / 4}, iteration=i, frames=i * 64)
logger.summary({"eval/win": 0.5})
print("id", logger.id, flush=True)
if "KILL" in os.environ:
    time.sleep(1.6)
    os.kill(os.getpid(), signal.SIGKILL)
logger.close()
"""


VALUES = '"eval/win": (0.25, 0.5, 0.125)[i - 1]'
ATTACH = """
logger.summary({"eval/win": 0.125})
for kind, name in (("replay", "PAGE"), ("best", "CHECKPOINT"), ("latest", "CHECKPOINT")):
    logger.attach(kind, pathlib.Path(os.environ[name]), frames=192)
logger.close()
"""


@pytest.fixture
def home(tmp_path):
    """An empty home; a test that fills it shows what left the run directory."""
    path = tmp_path / "home"
    path.mkdir()
    return path


@pytest.fixture
def run(tmp_path):
    path = tmp_path / "run"
    path.mkdir()
    return path


def environment(home, **extra):
    clean = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("WANDB", "XDG_")) and key != "NETRC"
    }
    place = {"HOME": str(home), "TMPDIR": str(home), "PYTHONPATH": str(ROOT), "NO_PROXY": "*"}
    return {**clean, **place, **extra}


def command(run, mode):
    return [sys.executable, "-c", SCRIPT, str(run), json.dumps({**OPTIONS, "mode": mode})]


def start(run, home, *, mode, **extra):
    return subprocess.run(
        command(run, mode),
        cwd=run.parent,
        env=environment(home, **extra),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )


def written_to_a_terminal(words, cwd, env, patience_s):
    """Return the terminal output of a program and its exit code (None: it waits)."""
    master, slave = pty.openpty()
    child = subprocess.Popen(
        words, cwd=cwd, env=env, stdin=slave, stdout=slave, stderr=slave, start_new_session=True
    )
    os.close(slave)
    written, end = b"", time.monotonic() + patience_s
    try:
        while time.monotonic() < end:
            if select.select([master], [], [], 0.1)[0]:
                written += os.read(master, 65536)
    except OSError:  # Linux reports the end of a pseudo-terminal as an error
        child.wait(timeout=10)
    code = child.poll()
    child.kill()
    child.wait()
    os.close(master)
    return written.decode(), code


def read_by_wandb(run, home, *options):
    newest = max(
        (run / "wandb").glob("offline-run-*/*.wandb"), key=lambda path: path.stat().st_mtime
    )
    words = [sys.executable, "-m", "wandb", "leet", "inspect", *options, "--json"]
    home = home or run.parent / "home"
    done = subprocess.run(
        [*words, str(newest)],
        env=environment(home),
        cwd=run,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def inspect(run, home=None):
    """Return the state at the end of the newest file of the run, as wandb itself reads it."""
    return json.loads(read_by_wandb(run, home, "--summary"))


def records(run, home, kind):
    """Return all records of a kind, as wandb itself reads them."""
    rows = [json.loads(line) for line in read_by_wandb(run, home).splitlines()]
    return [row[kind] for row in rows if row["type"] == kind]


def test_offline_stays_inside_the_run_and_wandb_can_read_it(run, home):
    key = "5e5a4e" * 7
    done = start(run, home, mode="offline", WANDB_API_KEY=key)
    assert done.returncode == 0, done.stdout
    word, run_id = done.stdout.split()  # nothing else was printed
    assert word == "id"
    assert not list(home.rglob("*"))
    assert sorted(path.name for path in run.parent.iterdir()) == ["home", "run"]
    assert [path.name for path in run.iterdir()] == ["wandb"]
    files = [path for path in run.rglob("*") if path.is_file()]
    assert not [path for path in files if key.encode() in path.read_bytes()]
    found = inspect(run)
    assert (found["run_id"], found["project"], found["name"]) == (run_id, "navrl", "combat-ppo")
    assert (found["state"], found["config"], found["tags"]) == (
        "finished",
        OPTIONS["config"],
        ["a"],
    )
    assert found["notes"] == "a try"
    (described,) = records(run, home, "run")
    assert (described["job_type"], described.get("run_group")) == ("train", None)
    summary = {key: found["summary"][key] for key in ("loss/value", "frames", "eval/win")}
    assert summary == {"loss/value": 0.75, "frames": 192, "eval/win": 0.5}


def test_online_without_login_goes_offline_with_one_warning_and_asks_nothing(run, home):
    began = time.monotonic()
    env = environment(home, TERM="xterm")
    written, code = written_to_a_terminal(command(run, "online"), run.parent, env, 20.0)
    assert time.monotonic() - began < 15.0
    assert code == 0, written
    warning, last = written.splitlines()
    assert warning.startswith("WARNING wandb continues offline: not logged in")
    assert last.startswith("id ")
    assert not list(home.rglob("*"))
    assert inspect(run)["summary"]["frames"] == 192


def test_a_killed_run_has_its_rows_on_disk(run, home):
    done = start(run, home, mode="offline", KILL="1")
    assert done.returncode == -signal.SIGKILL
    found = inspect(run)
    assert (found["state"], found["summary"]["frames"]) == ("running", 192)


@pytest.mark.slow
def test_online_with_a_key_but_without_a_server_goes_offline_soon(run, home):
    began = time.monotonic()
    server = "http://127.0.0.1:9"  # the discard port: refused at once
    done = start(run, home, mode="online", WANDB_API_KEY="k" * 40, WANDB_BASE_URL=server)
    assert time.monotonic() - began < 40.0
    assert done.returncode == 0, done.stdout
    warning, last = done.stdout.splitlines()
    assert warning.startswith("WARNING wandb continues offline: ")
    assert last.startswith("id ")
    assert inspect(run)["summary"]["frames"] == 192


def test_a_resume_keeps_the_id_and_another_runs_id_can_be_continued(run, monkeypatch):
    for variable in ("WANDB_DATA_DIR", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR", "WANDB_ARTIFACT_DIR"):
        monkeypatch.setenv(variable, "")  # so that the test's end restores them
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "")
    monkeypatch.setenv("WANDB_SILENT", "")
    first = WandbLogger(directory=run, **OPTIONS)
    first.close()
    second = WandbLogger(directory=run, **OPTIONS)
    assert second.id == first.id
    assert second.state_dict() == {"id": first.id, "best": {}}
    second.load_state_dict({"id": "from-elsewhere_1"})
    assert second.id == "from-elsewhere_1"
    second.close()
    assert WandbLogger(directory=run, **{**OPTIONS, "mode": "disabled"}).id == "from-elsewhere_1"
    with pytest.raises(ValueError, match="must be letters, digits"):
        second.load_state_dict({"id": "../../outside"})


def test_what_a_sweep_attaches_and_its_best_values_are_read_back_by_wandb(run, home):
    """A replay as media, checkpoints as artifacts, and nothing outside of the run."""
    sweep = run / "combat-ppo" / "20261120-0700"
    (sweep / "3").mkdir(parents=True)
    (sweep / "multirun.yaml").touch()
    page = sweep / "final.html"
    page.write_text("<!doctype html><title>fight</title>" + "x" * 1000)
    checkpoint = sweep / "step_64.ckpt"
    checkpoint.write_bytes(bytes(range(256)))
    script = SCRIPT.replace("logger.close()", ATTACH).replace('"loss/value": i / 4', VALUES)
    options = {**OPTIONS, "replay": True, "checkpoints": True}
    words = [sys.executable, "-c", script, str(sweep / "3"), json.dumps(options)]
    files = {"PAGE": str(page), "CHECKPOINT": str(checkpoint)}
    done = subprocess.run(
        words,
        cwd=run,
        env=environment(home, **files),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = inspect(sweep / "3", home)
    described, *_ = records(sweep / "3", home, "run")
    assert (described["run_group"], described["job_type"]) == ("combat-ppo/20261120-0700", "sweep")
    kept = records(sweep / "3", home, "artifact")
    assert [set(each["aliases"]) for each in kept] == [{"latest", "best"}, {"latest"}]
    for each in kept:
        (content,) = each["manifest"]["contents"]
        assert Path(content["local_path"]).read_bytes() == checkpoint.read_bytes()
        assert Path(content["local_path"]).is_relative_to(sweep / "3" / "wandb")
    assert found["summary"]["best/eval/win"] == 0.5  # of 0.25, 0.5, 0.125
    assert found["summary"]["best/eval/win_frames"] == 128
    assert found["summary"]["eval/win"] == 0.125
    media = found["summary"]["replay"]
    assert media["_type"] == "html-file"
    (folder,) = (sweep / "3" / "wandb").glob("offline-run-*")
    assert (folder / "files" / media["path"]).read_bytes() == page.read_bytes()
    assert not [path for path in home.rglob("*") if path.is_file()]


def test_a_run_leaves_no_folder_of_its_own_to_the_next_one(run, monkeypatch):
    """Else an online run would not find the user's server, whose address is in their own folder."""
    monkeypatch.setenv("WANDB_CONFIG_DIR", "/mine")
    monkeypatch.delenv("WANDB_CACHE_DIR", raising=False)
    monkeypatch.setenv("WANDB_SERVICE", "")  # which wandb sets for its own process, once
    del os.environ["WANDB_SERVICE"]
    before = {**os.environ}
    logger = WandbLogger(directory=run, **OPTIONS)
    assert os.environ["WANDB_CONFIG_DIR"] == str(run / "wandb" / "local" / "config")
    logger.close()
    os.environ.pop("WANDB_SERVICE", None)
    assert {**os.environ} == before


def test_an_unknown_mode_names_the_known_ones(run):
    with pytest.raises(
        ValueError, match=r"logger\.mode = on; expected one of offline, online, disabled"
    ):
        WandbLogger(directory=run, **{**OPTIONS, "mode": "on"})
    assert not list(run.iterdir())


@pytest.mark.parametrize("spec", [None, importlib.machinery.ModuleSpec("wandb", None)])
def test_a_missing_package_is_seen_also_behind_a_folder_of_its_name(run, monkeypatch, spec):
    monkeypatch.setattr(module, "find_spec", lambda name: spec)
    with pytest.raises(ModuleNotFoundError, match="pip install 'wandb"):
        WandbLogger(directory=run, **OPTIONS)


def test_importing_the_loggers_imports_no_mirror():
    code = "import sys, navrl.loggers; print({'wandb', 'tensorboard'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "set()\n"
