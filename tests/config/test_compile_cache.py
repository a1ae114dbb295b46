"""The folder of compiled code: navrl's own unless the user names one, and its description by the doctor."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from navrl.commands.doctor import check_compile_cache
from navrl.config import compile_cache
from navrl.envs.core.compiling import Compilation
from navrl.run import messages

_PROGRAM = "import navrl, os; print(os.environ['TORCHINDUCTOR_CACHE_DIR'])"


def folder_of(**environment):
    """The folder that a new process takes."""
    inherited = {
        name: value for name, value in os.environ.items() if name != compile_cache.VARIABLE
    }
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", _PROGRAM],
        check=True,
        env=inherited | environment,
        capture_output=True,
        text=True,
    )
    return Path(done.stdout.strip())


def test_the_folder_is_below_the_cache_directory_and_private(tmp_path):
    found = folder_of(XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert found == tmp_path / "cache" / "navrl" / "torch"
    for place in (found, found.parent, found.parent.parent):
        assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert (
        folder_of(XDG_CACHE_HOME=str(tmp_path / "cache")) == found
    )  # and the next process finds it


@pytest.mark.parametrize("base", [None, "", "relative/cache"])
def test_without_a_usable_cache_directory_it_is_below_home(tmp_path, monkeypatch, base):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    chosen = {} if base is None else {"XDG_CACHE_HOME": base}
    assert folder_of(HOME=str(tmp_path), **chosen) == tmp_path / ".cache" / "navrl" / "torch"


def test_a_cache_directory_behind_a_link_of_the_user_is_used(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "cache").symlink_to(tmp_path / "disk")
    found = folder_of(XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert found == tmp_path / "disk" / "navrl" / "torch"


def test_the_folder_that_the_user_names_is_used_as_it_is(tmp_path):
    chosen, base = tmp_path / "mine", tmp_path / "cache"
    environment = {compile_cache.VARIABLE: str(chosen), "XDG_CACHE_HOME": str(base)}
    assert folder_of(**environment) == chosen
    assert not chosen.exists()
    assert not base.exists()


def test_the_doctor_shows_folder_size_and_privacy(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    own = tmp_path / "navrl" / "torch"
    assert check_compile_cache(own) == ("compile cache", "ok", f"{own}, 0 MB, not made yet", "")
    own.mkdir(parents=True, mode=0o700)
    (own / "kernel.so").write_bytes(bytes(3_000_000))
    assert check_compile_cache(own).found == f"{own}, 3 MB, private"
    chosen = tmp_path / "chosen"
    chosen.mkdir()
    assert check_compile_cache(chosen).found.endswith(
        "0 MB, set by TORCHINDUCTOR_CACHE_DIR, private"
    )
    chosen.chmod(0o770)
    _, state, found, remedy = check_compile_cache(chosen)
    assert state == "warn"
    assert found.endswith(f"not private: others can write to {chosen}")
    assert "TORCHINDUCTOR_CACHE_DIR" in remedy


def test_a_temporary_folder_keeps_nothing_and_messages_say_so(tmp_path, monkeypatch):
    monkeypatch.setenv(compile_cache.VARIABLE, str(tmp_path / "navrl-torch-abc"))
    made = [Compilation("the policy", 2.0, cached=False)]
    assert messages.compiled(3.0, made).endswith(", not kept for later runs")
    assert check_compile_cache(tmp_path / "navrl-torch-abc").state == "warn"
