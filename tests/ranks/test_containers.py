"""Memory of several processes: which share it, and that no other file is taken for it."""

import contextlib
import os
import subprocess
import sys

import pytest

from navrl.ranks import shared

# Two ranks, whose parent prints what each has found.
PAIR = """
import os, socket, sys
import torch
from navrl.ranks import process_group, ranks_of
from navrl.ranks.world import _memory

with socket.socket() as found:
    found.bind(("127.0.0.1", 0))
    port = found.getsockname()[1]
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
os.environ.update(WORLD_SIZE="2", LOCAL_WORLD_SIZE="2")
children = []
for rank in range(2):
    child = os.fork()
    if child == 0:
        os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank))
        with process_group():
            found = ranks_of(2, 2).all_gather(torch.tensor([7 * rank + 1]), 0).tolist()
            os.write(1, f"{_memory[0] is not None} {found}\\n".encode())
        os._exit(0)
    children.append(child)
sys.exit(max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children))
"""


def pair(*before):
    command = [*before, sys.executable, "-c", PAIR]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.commands
@pytest.mark.skipif(sys.platform != "linux", reason="memory without a name is Linux's")
def test_processes_of_one_machine_share_memory():
    assert pair() == ["True [1, 8]"] * 2


@pytest.mark.commands
def test_a_container_that_sees_other_numbers_of_processes_sends_through_sockets():
    """The numbers of a new namespace begin at 1, and /proc still shows those of the old one."""
    elsewhere = ("unshare", "--fork", "--pid")
    try:
        subprocess.run([*elsewhere, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no namespace of processes can be made here")
    assert pair(*elsewhere) == ["False [1, 8]"] * 2


def test_a_file_in_the_place_of_the_memory_is_not_opened(tmp_path):
    """A pipe without a reader would block the one who opens it."""
    os.mkfifo(tmp_path / "pipe")
    with contextlib.ExitStack() as stack:
        made = shared._made(4096, stack)
        with pytest.raises(FileNotFoundError):
            shared._opened(str(tmp_path / "pipe"), made, stack)
        own = shared._opened(f"/proc/self/fd/{made.descriptor}", made, stack)
        assert os.fstat(own).st_size == 4096
