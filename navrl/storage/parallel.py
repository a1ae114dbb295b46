"""The same work on many pieces, by a few threads when it is worth starting them."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_MOST_THREADS = 4
_WORTH_THREADS_BYTES = 4 << 20  # starting threads takes as long as coding some 100 KB

Job = TypeVar("Job")
Done = TypeVar("Done")


def each(
    function: Callable[[Job], Done], jobs: Sequence[Job], total_bytes: int, threads: int | None
) -> Iterator[Done]:
    """The results in the order of the jobs; `threads` null means as many as there are cores, up to 4."""
    if threads is not None and threads < 1:
        raise ValueError(f"threads = {threads}; expected 1 or more, or none given")
    count = threads or min(_MOST_THREADS, os.cpu_count() or 1)
    if count == 1 or total_bytes < _WORTH_THREADS_BYTES:
        yield from map(function, jobs)
        return
    # numpy, lz4, zlib and hashlib free the interpreter lock, so threads do.
    with ThreadPoolExecutor(count, "navrl-container") as pool:
        try:
            results = pool.map(function, jobs)
        except RuntimeError:
            # The program is ending, but a last save in a thread of its own may not be lost.
            results = map(function, jobs)
        yield from results
