"""What can be wrong with a file; every error names the file and the part."""

from pathlib import Path


class CorruptFile(ValueError):  # noqa: N818 (it says what it is without a suffix)
    """A file that is not what was written; the message names the file and the part."""

    def __init__(self, path: Path, part: str, reason: str) -> None:
        super().__init__(f"{path} is damaged: {part}: {reason}")
        self.path = path
        self.part = part
        self.verdict = f"damaged: {part}"  # in a few words, where the file is named already


class ForeignFile(CorruptFile):
    """A file that was never one of ours, or of a version or kind that is not read here."""

    def __init__(self, path: Path, sentence: str) -> None:
        super().__init__(path, "header", sentence)
        self.args = (f"{path} {sentence}",)
        self.verdict = sentence
