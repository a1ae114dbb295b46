"""The TensorBoard logger (an extra)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from navrl.loggers.null import PICTURE, NullLogger
from navrl.storage.files import make_directory, require_contained


class TensorBoardLogger(NullLogger):
    """A writer of event files in <run>/tensorboard, with frames on the x axis."""

    def __init__(
        self,
        *,
        directory: Path,
        name: str,
        config: Mapping[str, Any],
        flush_s: int,
        hparams: bool,
        picture: bool,
    ) -> None:
        del name  # the folder has the name of the run
        self.check(picture=picture)
        self.wants = frozenset([PICTURE] if picture else [])
        self._hparams = dict(_flat(config)) if hparams else {}
        self._frames, self._summary = 0, dict[str, float]()
        self._folder = directory / "tensorboard"
        make_directory(self._folder)
        require_contained(self._folder)
        self._flush_s = flush_s
        self._open(None)

    @staticmethod
    def check(**options: Any) -> None:
        """Raise if TensorBoard is not installed, or what draws a picture."""
        if find_spec("tensorboard") is None:
            raise ModuleNotFoundError(
                "logger=tensorboard needs a package that is not installed: "
                "pip install 'navrl[tensorboard]'"
            )
        if options.get("picture") and find_spec("matplotlib") is None:
            raise ModuleNotFoundError(
                "logger.picture=true needs packages that are not installed: pip install 'navrl[viz]'"
            )

    def log(self, metrics: Mapping[str, float], *, iteration: int, frames: int) -> None:
        """Write every metric at `frames`."""
        self._frames = frames
        for key, number in {"iteration": float(iteration), **metrics}.items():
            self._writer.add_scalar(key, number, frames)

    def summary(self, metrics: Mapping[str, float]) -> None:
        """Write the final numbers as one table of text."""
        self._summary = dict(metrics)
        rows = "\n".join(f"| {key} | {number:.6g} |" for key, number in metrics.items())
        self._writer.add_text("summary", f"| metric | value |\n|---|---|\n{rows}")

    def attach(self, kind: str, path: Path, *, frames: int) -> None:
        """Show a picture of an episode of the final policy."""
        import numpy as np
        from PIL import Image

        with Image.open(path) as picture:
            pixels = np.asarray(picture.convert("RGB"))
        self._writer.add_image(kind, pixels, frames, dataformats="HWC")

    def truncate_after(self, frames: int) -> None:
        """Hide the points beyond `frames` that the interrupted run had written."""
        self._writer.close()
        self._open(frames + 1)

    def close(self) -> None:
        """Add options and final numbers for the tab HPARAMS, and close the event file."""
        if self._hparams and self._summary:
            finals = {f"final/{name}": value for name, value in self._summary.items()}
            self._writer.add_hparams(self._hparams, finals, run_name=".", global_step=self._frames)
            self._summary = {}
        self._writer.close()

    def _open(self, purge_step: int | None) -> None:
        from torch.utils.tensorboard import SummaryWriter  # slow, and present with the extra only

        self._writer = SummaryWriter(
            str(self._folder), purge_step=purge_step, flush_secs=self._flush_s
        )


def _flat(config: Mapping[str, Any], place: str = "") -> Iterator[tuple[str, Any]]:
    """Yield options by dotted keys, in the kinds that the tab HPARAMS knows."""
    for key, value in config.items():
        name = f"{place}{key}"
        if isinstance(value, Mapping):
            yield from _flat(value, f"{name}.")
        else:
            yield name, value if isinstance(value, bool | int | float | str) else str(value)
