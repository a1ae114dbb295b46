"""What a file may fill: half of what the machine, a control group or the process has left."""

import resource
from pathlib import Path

import pytest
import torch

from navrl.storage import container, memory
from navrl.storage.checkpoint import load, write_state
from navrl.storage.find import find
from navrl.storage.header import TooLarge

GIB = 1 << 30


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with 8 GiB free and no limits; its files are below this folder."""
    write(tmp_path / "proc/meminfo", f"MemFree: 1 kB\nMemAvailable: {8 << 20} kB\n")
    write(tmp_path / "proc/self/cgroup", "")
    monkeypatch.setattr(memory, "_PROC", tmp_path / "proc")
    monkeypatch.setattr(memory, "_GROUPS", tmp_path / "groups")
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def group(folder: Path, most: str, used: int, cached: int) -> None:
    write(folder / "memory.max", most)
    write(folder / "memory.current", str(used))
    write(folder / "memory.stat", f"anon 5\ninactive_file {cached}\n")


def test_half_of_what_is_free_may_be_filled(machine: Path) -> None:
    assert memory.usable_bytes() == 4 * GIB


def test_the_narrowest_group_counts_and_its_cache_is_free(machine: Path) -> None:
    write(machine / "proc/self/cgroup", "0::/job/step\n")
    group(machine / "groups/job/step", "max\n", 0, 0)
    assert memory.usable_bytes() == 4 * GIB
    group(machine / "groups/job", str(4 * GIB), 3 * GIB, GIB)
    assert memory.usable_bytes() == GIB
    group(machine / "groups/job/step", str(GIB), 2 * GIB, 0)
    assert memory.usable_bytes() == 0


def test_groups_of_the_older_kind_count(machine: Path) -> None:
    write(machine / "proc/self/cgroup", "7:blkio:/x\n4:memory:/job\n0::/\n")
    folder = machine / "groups/memory/job"
    write(folder / "memory.limit_in_bytes", str(3 * GIB))
    write(folder / "memory.usage_in_bytes", str(2 * GIB))
    write(folder / "memory.stat", f"total_inactive_file {GIB}\n")
    assert memory.usable_bytes() == GIB


def test_a_limit_of_the_process_counts(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(machine / "proc/self/statm", f"{GIB // resource.getpagesize()} 7 7\n")
    monkeypatch.setattr(resource, "getrlimit", lambda _: (2 * GIB, resource.RLIM_INFINITY))
    assert memory.usable_bytes() == GIB // 2


def test_a_checkpoint_too_large_for_the_machine_is_skipped_like_a_damaged_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for frames, numbers in ((1, 10), (2, 100_000)):
        state = {"x": torch.zeros(numbers)}
        write_state(tmp_path / f"step_{frames:012d}.ckpt", state, frames=frames, score=None)
    monkeypatch.setattr(container, "usable_bytes", lambda: 100_000)
    with pytest.warns(
        RuntimeWarning, match=r"skipped: .*is too large: .* at most 100,000"
    ) as found:
        assert find(str(tmp_path), tmp_path).name == "step_000000000001.ckpt"
    assert len(found) == 1
    with pytest.raises(TooLarge, match=r"step_000000000002.ckpt is too large"):
        load(tmp_path / "step_000000000002.ckpt")
