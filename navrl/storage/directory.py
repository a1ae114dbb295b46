"""What lies in a checkpoints directory: step_<frames>.ckpt files and the pointers latest and best.

A pointer is one line of JSON with the file's name and sha256, for people and scripts. Nothing here
trusts it: resuming looks at the checkpoints themselves.
"""

import json
import re
from pathlib import Path

from navrl.storage.atomic import replace_file

LATEST = "latest"
BEST = "best"
_STEP = re.compile(r"step_(\d{12,18})\.ckpt")


def step_name(frames: int) -> str:
    """The file name of the checkpoint taken after that many frames."""
    if not 0 <= frames < 10**18:
        raise ValueError(f"frames = {frames} must be between 0 and 10^18")
    return f"step_{frames:012d}.ckpt"


def frames_of(name: str) -> int:
    """The inverse of `step_name`."""
    match = _STEP.fullmatch(name)
    if match is None:
        raise ValueError(f"{name!r} is not a checkpoint name like {step_name(0)!r}")
    return int(match[1])


def checkpoints(directory: Path) -> list[Path]:
    """All checkpoint files of a directory, most frames first, intact or not."""
    found = [path for path in directory.iterdir() if _STEP.fullmatch(path.name)]
    return sorted(found, key=lambda path: frames_of(path.name), reverse=True)


def write_pointer(directory: Path, pointer: str, name: str, sha256: str) -> None:
    """Make the pointer file name one checkpoint, atomically."""
    line = json.dumps({"file": name, "sha256": sha256}) + "\n"
    replace_file(directory / pointer, [line.encode()])
