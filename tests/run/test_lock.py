"""The lock of a run directory: one process at a time, whatever happens to the files inside."""

import errno
import fcntl
import json
import os
import shutil
import time

import pytest

from navrl.run import lock as module
from navrl.run.lock import RunDirectoryError, RunLock, is_held, listed_locks
from navrl.run.status import write_status
from tests.command_line import forks


def hold(path, locked):
    """Lock the run directory and keep it."""
    with RunLock(path):
        locked.set()
        time.sleep(60)


@pytest.fixture
def holder(tmp_path):
    """Another process, which has locked the run."""
    locked = forks.Event()
    process = forks.Process(target=hold, args=(tmp_path / "run", locked))
    process.start()
    assert locked.wait(30)
    yield process
    process.kill()
    process.join()


def in_use(path, by):
    with pytest.raises(RunDirectoryError, match=f"is in use by process {by};"):
        RunLock(path)


@pytest.mark.commands
def test_the_holder_is_named_before_it_has_written_anything(holder, tmp_path):
    in_use(tmp_path / "run", holder.pid)
    (tmp_path / "run" / "status.json").write_text(json.dumps({"pid": 1}))  # of an earlier process
    in_use(tmp_path / "run", holder.pid)


@pytest.mark.commands
def test_no_file_that_is_deleted_gives_the_lock_away(holder, tmp_path):
    for path in (tmp_path / "run").iterdir():
        path.unlink()
    in_use(tmp_path / "run", holder.pid)


@pytest.mark.commands
def test_a_killed_process_holds_nothing(holder, tmp_path):
    holder.kill()
    holder.join()
    with RunLock(tmp_path / "run") as lock:
        assert lock.path == tmp_path / "run"


@pytest.mark.commands
def test_where_the_system_lists_no_locks_status_json_names_the_holder(
    holder, tmp_path, monkeypatch
):
    monkeypatch.setattr(module, "_LOCKS", tmp_path / "missing")
    in_use(tmp_path / "run", "unknown")
    (tmp_path / "run" / "status.json").write_text(json.dumps({"pid": 4711}))
    in_use(tmp_path / "run", 4711)


def test_a_released_lock_is_free_although_a_fork_has_the_file_open(tmp_path):
    lock = RunLock(tmp_path)
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    try:
        lock.release()
        with RunLock(tmp_path):
            pass
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)


@pytest.mark.parametrize("replaced", [True, False])
def test_a_folder_that_vanishes_before_it_is_locked_is_made_again(tmp_path, monkeypatch, replaced):
    run, flock, times = tmp_path / "run", fcntl.flock, []

    def vanishing(descriptor, operation):
        if not times:
            shutil.rmtree(run)
            if replaced:
                run.mkdir()
        times.append(descriptor)
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", vanishing)
    with RunLock(run):
        assert len(times) == 2
        in_use(run, os.getpid())  # the folder that is there now


def without_locks_of_directories(monkeypatch):
    flock = fcntl.flock

    def nfs(descriptor, operation):
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):
            raise OSError(errno.EBADF, "Bad file descriptor")
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", nfs)


def test_where_directories_cannot_be_locked_a_file_in_them_is(tmp_path, monkeypatch):
    without_locks_of_directories(monkeypatch)
    with RunLock(tmp_path):
        in_use(tmp_path, os.getpid())
    with RunLock(tmp_path):
        pass


def test_that_file_is_no_link_to_another(tmp_path, monkeypatch):
    without_locks_of_directories(monkeypatch)
    (tmp_path / "precious").write_text("kept")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".lock").symlink_to(tmp_path / "precious")
    with pytest.raises(RunDirectoryError, match="cannot write the run directory"):
        RunLock(tmp_path / "run")
    assert (tmp_path / "precious").read_text() == "kept"


def test_a_file_system_without_locks_warns(tmp_path, monkeypatch, caplog):
    def refuse(descriptor, operation):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with RunLock(tmp_path):
        assert "start one run per folder" in caplog.text


def test_a_lock_is_seen_without_trying_it(tmp_path):
    locks = listed_locks()
    assert locks is not None
    assert not is_held(tmp_path, locks)
    with RunLock(tmp_path):
        found = listed_locks()
        assert is_held(tmp_path, found)
        number = tmp_path.stat().st_ino  # the directory itself is locked
        elsewhere = {(0, number): os.getpid()}  # as btrfs names the device
        assert not is_held(tmp_path, elsewhere)
        write_status(tmp_path, "running", "", 0)
        assert is_held(tmp_path, elsewhere)
    assert not is_held(tmp_path, listed_locks())
