"""Run directories from elsewhere, in which names of navrl's files are links, pipes or second names."""

import contextlib
import os
import shutil
import time
from pathlib import Path

import pytest
import torch

import navrl.commands.replay
import navrl.commands.report
import navrl.train
from navrl.api.runs import Run
from navrl.loggers.jsonl import JsonlLogger, read_metrics
from navrl.loggers.tensorboard import TensorBoardLogger
from navrl.loggers.wandb import WandbLogger
from navrl.run.directory import RunDirectory
from navrl.run.lock import RunDirectoryError, RunLock
from navrl.run.status import read_status
from navrl.run.timers import TraceProfiler
from navrl.storage import files
from navrl.storage.files import UnsafePath
from navrl.storage.rollouts import RolloutStorage
from navrl.storage.saver import CheckpointSaver
from tests.command_line import process

pytestmark = pytest.mark.hostile

SAVER = {
    **{"keep_last": 2, "keep_best": 1, "save_every": 1},
    **{"on_error": "stop", "compress": False},
}
WANDB = {
    **{"mode": "offline", "project": "p", "entity": None, "group": None},
    **{"job_type": None, "notes": None, "tags": [], "replay": False, "checkpoints": False},
    "init_timeout_s": 3.0,
}


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder of the user beside the run: its files must stay as they are, and no other may join them."""
    folder = tmp_path / "outside"
    (folder / "full").mkdir(parents=True)
    (folder / "empty").mkdir()
    for name in ("notes.txt", "full/keys"):
        (folder / name).write_text(f"{name} is the user's\n" * 3)
    return folder


@pytest.fixture
def run(tmp_path: Path) -> Path:
    path = tmp_path / "run"
    path.mkdir()
    return path


def tree(folder: Path) -> dict[str, tuple[int, float, bytes]]:
    """Return mode, time of the last change and content of everything below the folder."""
    found = {}
    for path in sorted([folder, *folder.rglob("*")]):
        status = path.lstat()
        content = path.read_bytes() if path.is_file() else b""
        found[str(path)] = (status.st_mode, status.st_mtime_ns, content)
    return found


def links(outside: Path, name: str, path: Path) -> None:
    """Put one of the traps in the place of a file."""
    if name == "link":
        path.symlink_to(outside / "notes.txt")
    elif name == "link to nothing":
        path.symlink_to(outside / "empty" / "new")
    elif name == "link to a link":
        (path.parent / "second").symlink_to(outside / "notes.txt")
        path.symlink_to("second")
    elif name == "hard link":
        path.hardlink_to(outside / "notes.txt")
    elif name == "pipe":
        os.mkfifo(path)
    elif name == "device":
        path.symlink_to("/dev/zero")


TRAPS = ("link", "link to nothing", "link to a link", "hard link", "pipe", "device")
WRITING = {
    "append": os.O_WRONLY | os.O_CREAT | os.O_APPEND,
    "lock": os.O_RDWR | os.O_CREAT,
}


@pytest.mark.parametrize("trap", TRAPS)
@pytest.mark.parametrize("flags", WRITING.values(), ids=WRITING)
def test_no_trap_is_opened_for_writing(run: Path, outside: Path, trap: str, flags: int) -> None:
    links(outside, trap, run / "file")
    before, began = tree(outside), time.monotonic()
    with pytest.raises(
        UnsafePath, match=rf"^'{run}/file' is a .*; expected a file of the run itself; "
    ):
        files.open_regular(run / "file", flags)
    with pytest.raises(UnsafePath):
        files.append_line(run / "file", "{}")
    assert tree(outside) == before
    assert time.monotonic() - began < 1.0


@pytest.mark.parametrize("trap", [trap for trap in TRAPS if trap != "hard link"])
def test_no_trap_is_read(run: Path, outside: Path, trap: str) -> None:
    links(outside, trap, run / "status.json")
    began = time.monotonic()
    for read in (files.read_text, files.read_json, lambda path: next(read_metrics(path))):
        with pytest.raises(UnsafePath, match=r"status\.json"):
            read(run / "status.json")
    assert time.monotonic() - began < 1.0


def test_what_is_regular_is_opened_as_ever(run: Path) -> None:
    (run / "real").mkdir()
    (run.parent / "way").symlink_to(run / "real")  # the path to a run is the user's own
    for line in ("1", "2"):
        files.append_line(run.parent / "way" / "resumes.jsonl", line)
    assert (run / "real" / "resumes.jsonl").read_text() == "1\n2\n"
    assert files.read_text(run.parent / "way" / "resumes.jsonl") == "1\n2\n"


def test_a_file_of_endless_size_or_depth_is_no_json(run: Path) -> None:
    path = run / "status.json"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    for content in (None, "[" * 1_000_000, '{"a":' * 100_000, "\xff", "9" * 10_000):
        if content is not None:
            path.write_bytes(content.encode("latin-1"))
        began = time.monotonic()
        with pytest.raises(ValueError):  # noqa: PT011 (of several kinds)
            files.read_json(path)
        assert time.monotonic() - began < 1.0


@pytest.mark.parametrize("trap", TRAPS)
def test_metrics_are_not_written_through_a_trap(run: Path, outside: Path, trap: str) -> None:
    links(outside, trap, run / "metrics.jsonl")
    before = tree(outside)
    with pytest.raises(UnsafePath, match=r"metrics\.jsonl"):
        JsonlLogger(directory=run)
    assert tree(outside) == before


@pytest.mark.parametrize("trap", TRAPS)
def test_a_file_that_is_replaced_leaves_what_it_led_to(run: Path, outside: Path, trap: str) -> None:
    """summary.json, status.json, pointers of checkpoints, checkpoints and rollouts are written so."""
    before_inodes = tree(outside)
    links(outside, trap, run / "latest")
    files.write_atomically(run / "latest", "new\n")
    assert (run / "latest").read_text() == "new\n"
    assert not (run / "latest").is_symlink()
    with files.replacing(run / "latest") as temporary:
        temporary.write_text("newer\n")
    assert (run / "latest").read_text() == "newer\n"
    files.replace_by_link(run / "latest", "target")
    assert os.readlink(run / "latest") == "target"
    assert tree(outside) == before_inodes
    assert {path.name for path in run.iterdir()} <= {"latest", "second"}


def test_guessed_names_of_temporary_files_are_never_used(run: Path, outside: Path) -> None:
    before = tree(outside)
    for name in (
        f".latest.{os.getpid()}.tmp",
        ".latest.tmp",
        "latest.tmp",
        f"latest.{os.getpid()}",
    ):
        (run / name).symlink_to(outside / "notes.txt")
    files.write_atomically(run / "latest", "new\n")
    files.replace_by_link(run / "latest", "target")
    assert tree(outside) == before


def open_saver(run: Path) -> None:
    CheckpointSaver(directory=run / "checkpoints", **SAVER).save({"x": 1}, frames=1, score=1.0)


def open_rollouts(run: Path) -> None:
    options = {"save_every": 1, "keep_last": 1, "drop": [], "compress": False}
    RolloutStorage(directory=run / "rollouts", **options)


def open_tensorboard(run: Path) -> None:
    TensorBoardLogger(
        directory=run, name="n", config={}, flush_s=1, hparams=False, picture=False
    ).close()


def open_wandb(run: Path) -> None:
    WandbLogger(directory=run, name="n", config={}, **WANDB).close()


FOLDERS = {
    "checkpoints": open_saver,
    "rollouts": open_rollouts,
    "tensorboard": open_tensorboard,
    "wandb": open_wandb,
}


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("target", ["empty", "full", "missing", "notes.txt"])
def test_a_folder_that_is_a_link_is_refused(
    run: Path, outside: Path, folder: str, target: str
) -> None:
    (run / folder).symlink_to(outside / target)
    before = tree(outside)
    with pytest.raises(UnsafePath, match=rf"{folder}' is a link; expected a folder of the run"):
        FOLDERS[folder](run)
    assert tree(outside) == before


@pytest.mark.parametrize("folder", ["tensorboard", "wandb"])
@pytest.mark.parametrize("place", ["run_id", "local/config", "latest-run", "deep/er/debug.log"])
@pytest.mark.parametrize("trap", ["link", "link to nothing", "pipe", "device"])
def test_libraries_meet_no_way_out_of_their_folder(
    run: Path, outside: Path, folder: str, place: str, trap: str
) -> None:
    path = run / folder / place
    path.parent.mkdir(parents=True)
    links(outside, trap, path)
    before = tree(outside)
    with pytest.raises(UnsafePath, match=place):
        FOLDERS[folder](run)
    assert tree(outside) == before


def test_settings_for_wandb_from_elsewhere_are_not_read(run: Path, outside: Path) -> None:
    settings = run / "wandb" / "local" / "config" / "settings"
    settings.parent.mkdir(parents=True)
    settings.write_text(f"[default]\nx_files_dir = {outside}/empty\nroot_dir = {outside}/empty\n")
    before = tree(outside)
    open_wandb(run)
    assert tree(outside) == before
    assert not settings.exists()
    open_wandb(run)  # its own links stay inside


@pytest.mark.parametrize("trap", ["folder", *TRAPS])
def test_a_trace_is_not_written_elsewhere(run: Path, outside: Path, trap: str) -> None:
    if trap == "folder":
        (run / "profile").symlink_to(outside / "empty")
    else:
        (run / "profile").mkdir()
        links(outside, trap, run / "profile" / "trace.json.gz")
    before, notes = tree(outside), []
    with TraceProfiler(run / "profile", torch.device("cpu"), notes.append) as profiler:
        for _ in range(4):
            profiler.step()
    assert tree(outside) == before
    assert ("could not write" in notes[0]) == (trap == "folder")


TINY = (
    *("experiment=debug", "logger=none", "console=none", "eval_opponents=[]", "opponent=crank"),
    *("num_envs=8", "checkpoint.save_every=1", "rollouts=disk", "rollouts.save_every=1"),
    *("env.sim.tick_s=0.25", "env.sim.time_limit_s=8", "profile=false"),
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two iterations, as its author packs it."""
    folder = tmp_path_factory.mktemp("trained")
    options = ("total_frames=128", f"hydra.run.dir={folder}/run")
    assert process(navrl.train.main, *TINY, *options, folder=folder).returncode == 0
    return folder / "run"


def test_a_whole_resume_writes_nothing_elsewhere(trained: Path, run: Path, outside: Path) -> None:
    shutil.copytree(trained, run, dirs_exist_ok=True)
    for name in ("status.json", "summary.json", "checkpoints/latest", "checkpoints/best"):
        (run / name).unlink()
        (run / name).symlink_to(outside / "notes.txt")
    (run / "rollouts" / "rollout_000003.nvrl").symlink_to(outside / "notes.txt")
    (run / "checkpoints" / "step_000000000192.ckpt").symlink_to(outside / "empty" / "new")
    before = tree(outside)
    words = (f"resume={run}", "total_frames=192", "console=none")
    finished = process(navrl.train.main, *words, folder=run.parent)
    assert finished.returncode == 0, finished.stderr
    assert tree(outside) == before
    assert read_status(run)["state"] == "finished"
    assert not any(path.is_symlink() for path in run.rglob("*"))


REFUSED = {
    "metrics.jsonl": "notes.txt",
    "checkpoints": "empty",
    "config.yaml": "notes.txt",
    "inbox": "empty",
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_resume_that_would_follow_a_link_is_one_sentence(
    trained: Path, run: Path, outside: Path, name: str
) -> None:
    shutil.copytree(trained, run, dirs_exist_ok=True)
    target = outside / REFUSED[name]
    if (run / name).is_dir():
        shutil.copytree(run / name, target, dirs_exist_ok=True)
        shutil.rmtree(run / name)
    (run / name).unlink(missing_ok=True)
    (run / name).symlink_to(target)
    before = tree(outside)
    words = [f"resume={run}", "total_frames=192", "console=none"]
    if name == "inbox":
        words += ["collector=folder", "checkpoint.save_every=1", "collector.wait_s=1"]
    finished = process(navrl.train.main, *words, folder=run.parent)
    assert finished.returncode in (1, 2), finished.stderr
    assert "Traceback" not in finished.stderr
    assert f"{name}' is a link; expected a f" in finished.stderr
    assert finished.stderr.count("\n") == 1
    assert tree(outside) == before


def test_a_report_and_a_replay_stay_in_the_run(trained: Path, run: Path, outside: Path) -> None:
    shutil.copytree(trained, run, dirs_exist_ok=True)
    for name in ("report", "replays"):
        (run / name).symlink_to(outside / "empty")
    before = tree(outside)
    short = ("env.sim.time_limit_s=2", "env.sim.tick_s=0.25")
    for main, *words in (
        (navrl.commands.report.main, str(run)),
        (navrl.commands.replay.main, str(run), *short),
    ):
        finished = process(main, *words, folder=run.parent)
        assert finished.returncode == 1
        assert "' is a link; expected a folder of the run itself" in finished.stderr
        assert "Traceback" not in finished.stderr
    assert tree(outside) == before


RUN = {"config": "seed: 1\n", "overrides": [], "device": "cpu", "resumed_from": "x.ckpt"}


@pytest.mark.parametrize("trap", TRAPS)
@pytest.mark.parametrize("name", ["resumes.jsonl", "status.json", "config.yaml", "checkpoints"])
def test_a_resumed_run_writes_its_own_files_only(
    run: Path, outside: Path, name: str, trap: str
) -> None:
    for file in ("config.yaml", "overrides.yaml", "environment.json"):
        if file != name:
            (run / file).write_text("{}")
    if name == "checkpoints" and "link" in trap:
        (run / name).symlink_to(outside / ("missing" if "nothing" in trap else "full"))
    else:
        links(outside, trap, run / name)
    before, began = tree(outside), time.monotonic()
    latest = run.parent / "latest"
    latest.with_name(f".latest.{os.getpid()}.tmp").symlink_to(outside / "notes.txt")
    with contextlib.suppress(RunDirectoryError), RunLock(run) as lock:
        with RunDirectory(lock, latest=latest, **RUN) as opened:
            opened.set_status("finished")
        assert name in ("status.json", "config.yaml")  # the others are refused
        assert read_status(run)["state"] == "finished"
        assert os.readlink(latest) == "run"
    assert tree(outside) == before
    assert time.monotonic() - began < 1.0


@pytest.mark.parametrize("trap", [trap for trap in TRAPS if trap != "hard link"])
def test_a_status_is_not_read_through_a_trap(run: Path, outside: Path, trap: str) -> None:
    (outside / "notes.txt").write_text('{"state": "finished"}')
    links(outside, trap, run / "status.json")
    assert read_status(run) == {}


@pytest.mark.parametrize("trap", ["link", "pipe"])
def test_a_run_from_python_reads_through_no_trap(run: Path, outside: Path, trap: str) -> None:
    (outside / "notes.txt").write_text('{"state": "finished"}')
    for name in ("status.json", "summary.json", "metrics.jsonl"):
        links(outside, trap, run / name)
    (run / "config.yaml").touch()
    found = Run(run)
    assert found.status == {}
    for name in ("summary", "metrics"):
        with pytest.raises(UnsafePath, match=name):
            getattr(found, name)
    (run / "config.yaml").unlink()
    (run / "config.yaml").symlink_to(outside / "notes.txt")
    with pytest.raises(UnsafePath, match=r"config\.yaml"):
        _ = Run(run).config


def test_a_folder_with_the_name_of_a_temporary_file_is_left(run: Path, outside: Path) -> None:
    name = f".latest.{'0' * 16}.tmp"
    (run / name).mkdir()
    (run / name.replace("0", "1")).symlink_to(outside / "notes.txt")
    before = tree(outside)
    files.delete_temporaries(run)
    assert [path.name for path in run.iterdir()] == [name]
    assert tree(outside) == before
