"""The TensorBoard logger (an extra)."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from navrl.loggers.null import NullLogger
from navrl.storage.files import make_directory, require_contained


class TensorBoardLogger(NullLogger):
    """A writer of event files in <run>/tensorboard, with frames on the x axis."""

    def __init__(
        self, *, directory: Path, name: str, config: Mapping[str, Any], flush_s: int
    ) -> None:
        del name, config  # the folder has the name of the run, and config.yaml is next to it
        self.check()
        self._folder = directory / "tensorboard"
        make_directory(self._folder)
        require_contained(self._folder)
        self._flush_s = flush_s
        self._open(None)

    @staticmethod
    def check(**options: Any) -> None:
        """Raise if TensorBoard is not installed."""
        if find_spec("tensorboard") is None:
            raise ModuleNotFoundError(
                "logger=tensorboard needs a package that is not installed: "
                "pip install 'navrl[tensorboard]'"
            )

    def log(self, metrics: Mapping[str, float], *, iteration: int, frames: int) -> None:
        """Write every metric at `frames`."""
        for key, number in {"iteration": float(iteration), **metrics}.items():
            self._writer.add_scalar(key, number, frames)

    def summary(self, metrics: Mapping[str, float]) -> None:
        """Write the final numbers as one table of text."""
        rows = "\n".join(f"| {key} | {number:.6g} |" for key, number in metrics.items())
        self._writer.add_text("summary", f"| metric | value |\n|---|---|\n{rows}")

    def truncate_after(self, frames: int) -> None:
        """Hide the points beyond `frames` that the interrupted run had written."""
        self._writer.close()
        self._open(frames + 1)

    def close(self) -> None:
        """Flush and close the event file."""
        self._writer.close()

    def _open(self, purge_step: int | None) -> None:
        from torch.utils.tensorboard import SummaryWriter  # slow, and present with the extra only

        self._writer = SummaryWriter(
            str(self._folder), purge_step=purge_step, flush_secs=self._flush_s
        )
