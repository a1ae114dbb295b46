"""A training by several ranks, each a process of its own with the environment that torchrun gives it."""

import socket
import time
from pathlib import Path

from navrl import train
from tests.command_line import Finished, Started, process


def begin(
    ranks: int, *words: str, folder: Path, main=train.main, environment=None, elsewhere=None
) -> list[Started]:
    """The processes of a training, rank 0 first; the others may work `elsewhere`, as on other hosts."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    world = {
        **{"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)},
        **{"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks)},
        **(environment or {}),
    }
    return [
        Started(
            main,
            *words,
            folder=(elsewhere or folder) if rank else folder,
            environment={**world, "RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank in range(ranks)
    ]


def train_with(ranks: int, *words: str, folder: Path, **options) -> list[Finished]:
    """What all processes of a training have printed, with their exit codes."""
    folder.mkdir(exist_ok=True)
    if ranks == 1:  # in the folder, wherever others are
        return [process(train.main, *words, folder=folder)]
    deadline = time.monotonic() + 120.0
    return [
        each.finished(deadline - time.monotonic())
        for each in begin(ranks, *words, folder=folder, **options)
    ]
