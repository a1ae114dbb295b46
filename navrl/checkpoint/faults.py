"""What can be wrong with a file; every error names the file and the part."""

from pathlib import Path


class CorruptFile(ValueError):  # noqa: N818 (it says what it is without a suffix)
    """A file that is not what was written; the message names the file and the part."""

    def __init__(self, path: Path, part: str, reason: str) -> None:
        super().__init__(f"{path} is damaged: {part}: {reason}")
        self.path = path
        self.part = part


class ForeignFile(CorruptFile):
    """A file that was never one of ours, or is of a version that this code does not read."""

    def __init__(self, path: Path, sentence: str) -> None:
        super().__init__(path, "header", sentence)
        self.args = (f"{path} {sentence}",)
