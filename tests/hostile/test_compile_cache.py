"""Attacks on the folder of compiled code, whose files are executed and unpickled."""

import getpass
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from navrl.config.compile_cache import VARIABLE

pytestmark = pytest.mark.hostile

_REPORT = "import navrl, os; print(os.environ['TORCHINDUCTOR_CACHE_DIR'])"
_COMPILE = """
import torch
from navrl.envs.core.compiling import Compiled, compilations
torch.set_num_threads(1)
assert Compiled(lambda x: 2.0 * x.sin() + 1.0, "on")(torch.zeros(8)).tolist() == [1.0] * 8
print(compilations[0].cached)
"""


def run(program: str, **environment: str) -> subprocess.CompletedProcess:
    inherited = {name: value for name, value in os.environ.items() if name != VARIABLE}
    return subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        env=inherited | environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


def linked(place: Path, target: Path) -> None:
    """Replace a folder by a link, behind which it may continue."""
    if target.exists():
        target = target / place.name
        place.rename(target)
    else:
        place.rmdir()
    place.symlink_to(target)


# Each is given the folder that is wanted, and one of a stranger.
_ATTACKS: dict[str, Callable[[Path, Path], object]] = {
    "link": linked,
    "dangling link": lambda own, stranger: linked(own, stranger / "absent"),
    "link above": lambda own, stranger: linked(own.parent, stranger),
    "file": lambda own, _: (own.rmdir(), own.write_bytes(b"")),
    "writable to all": lambda own, _: own.chmod(0o777),
    "sticky": lambda own, _: own.chmod(0o1777),  # others cannot delete, but add
    "writable to the group": lambda own, _: own.chmod(0o770),
    "parent writable to all": lambda own, _: own.parent.parent.chmod(0o777),
    "of another user": lambda own, _: os.chown(own, 4321, 4321),
    "below another user": lambda own, _: os.chown(own.parent, 4321, 4321),
}


@pytest.mark.parametrize("attack", _ATTACKS)
def test_a_folder_that_others_control_is_not_used(tmp_path: Path, attack: str) -> None:
    if "user" in attack and os.geteuid() != 0:
        pytest.skip("only root can give files away")
    own, temporary = tmp_path / "cache" / "navrl" / "torch", tmp_path / "tmp"
    stranger = tmp_path / "stranger"
    for place in (own, temporary, stranger):
        place.mkdir(parents=True)
    _ATTACKS[attack](own, stranger)
    done = run(_REPORT, XDG_CACHE_HOME=str(tmp_path / "cache"), TMPDIR=str(temporary))
    found = Path(done.stdout.strip())
    assert found.parent == temporary  # a new name that nobody could guess, ...
    assert found.name != "torchinductor_" + getpass.getuser()
    assert [*temporary.iterdir()] == []  # ... removed at the end
    assert done.stderr.count("UserWarning: compiled code is not kept for later runs") == 1
    assert "expected a folder that nobody else can write to" in done.stderr
    assert not any(place.is_file() for place in stranger.rglob("*"))


@pytest.mark.parametrize("home", ["/proc/nothing", "/dev/null"])
def test_without_any_home_a_temporary_folder_is_used(tmp_path: Path, home: str) -> None:
    done = run(_REPORT, XDG_CACHE_HOME=home, TMPDIR=str(tmp_path))
    assert Path(done.stdout.strip()).parent == tmp_path
    assert [*tmp_path.iterdir()] == []


def test_a_fork_does_not_remove_the_temporary_folder_of_its_parent(tmp_path: Path) -> None:
    program = (
        "import navrl, os, sys\n"
        "if os.fork() == 0: sys.exit()\n"
        "os.wait(); print(os.path.isdir(os.environ['TORCHINDUCTOR_CACHE_DIR']))"
    )
    assert run(program, XDG_CACHE_HOME="/dev/null", TMPDIR=str(tmp_path)).stdout == "True\n"
    assert [*tmp_path.iterdir()] == []


def test_nothing_comes_from_the_folder_that_everybody_can_guess(tmp_path: Path) -> None:
    """In its place lies what cannot even be opened: whoever needs it, fails."""
    cache, temporary = tmp_path / "cache", tmp_path / "tmp"
    temporary.mkdir()
    guessable = temporary / f"torchinductor_{getpass.getuser()}"
    guessable.symlink_to("/dev/null/absent")
    environment = {"XDG_CACHE_HOME": str(cache), "TMPDIR": str(temporary)}
    assert run(_COMPILE, **environment).stdout == "False\n"
    assert [*temporary.iterdir()] == [guessable]
    kept = {place.name for place in (cache / "navrl" / "torch").iterdir()}
    assert {"fxgraph", "aotautograd", "precompiled_headers", "locks"} <= kept
    assert run(_COMPILE, **environment).stdout == "True\n"
