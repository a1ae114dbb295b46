"""`navrl watch` in a process of its own."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from typing import NamedTuple


class Server(NamedTuple):
    """A server that answers."""

    process: subprocess.Popen
    url: str
    port: int

    @property
    def memory_mb(self):
        """Its resident memory."""
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as file:
            (line,) = [line for line in file if line.startswith("VmRSS")]
        return int(line.split()[1]) / 1000


@contextlib.contextmanager
def watching(folder, *words, before=""):
    """Open `navrl watch` in that folder, on a free port; by Ctrl-C it ends with exit code 0.

    `before` is Python that the process runs first.
    """
    program = (
        f"import sys; {before}\n"
        "from navrl.commands import watch; watch.WATCH_PORT = 0; sys.exit(watch.main())"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            line = process.stdout.readline()
            found = re.search(r"http://[^:]+:(\d+)/\S*", line)
            assert found, line + process.stderr.read()
            yield Server(process, found[0], int(found[1]))
            started = time.monotonic()
            process.send_signal(signal.SIGINT)
            printed = process.communicate(timeout=20)
            assert process.returncode == 0, printed
            assert "Traceback" not in printed[1]
            assert time.monotonic() - started < 10
        finally:
            process.kill()
