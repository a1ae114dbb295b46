"""The Weights & Biases logger: offline unless online is possible, silent, inside the run directory."""

from __future__ import annotations

import logging
import math
import os
import re
import secrets
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from navrl.config.checks import require_choice
from navrl.loggers.jsonl import numbers
from navrl.loggers.null import REPLAY, NullLogger
from navrl.storage.files import make_directory, read_text, require_contained, write_atomically
from navrl.storage.info import BEST, LATEST

if TYPE_CHECKING:
    import wandb

_LOG = logging.getLogger(__name__)

Mode = Literal["offline", "online", "disabled"]
_LONGEST_NAME = 128  # characters, as the server allows
_OF_A_SWEEP = "multirun.yaml"  # which Hydra writes into the folder of a sweep


class WandbLogger(NullLogger):
    """A mirror of the metrics in a wandb run with frames on the x axis; never prompts, never waits long."""

    def __init__(
        self,
        *,
        directory: Path,
        name: str,
        config: Mapping[str, Any],
        mode: Mode,
        project: str,
        entity: str | None,
        group: str | None,
        job_type: str | None,
        notes: str | None,
        tags: Sequence[str],
        replay: bool,
        checkpoints: bool,
        init_timeout_s: float,
    ) -> None:
        self.check(mode=mode)
        self._directory = directory
        self._id_file = directory / "wandb" / "run_id"
        self._mode: Mode = mode
        self._timeout_s = init_timeout_s
        self._checkpoints = checkpoints
        wanted = {REPLAY: replay, LATEST: checkpoints, BEST: checkpoints}
        self.wants = frozenset(kind for kind, chosen in wanted.items() if chosen)
        sweep = _sweep_of(directory)
        self._arguments: dict[str, Any] = {
            "name": name[:_LONGEST_NAME],
            "config": dict(config),
            "project": project,
            "entity": entity,
            "group": group or sweep,
            "job_type": job_type or ("sweep" if sweep else "train"),
            "notes": notes,
            "tags": list(tags),
        }
        self._objective = str(config.get("env", {}).get("objective") or "return")
        self._best: dict[str, float] = {}
        confined = _confined(directory / "wandb", online=mode == "online")
        self._before = {variable: os.environ.get(variable) for variable in confined}
        os.environ.update(confined)
        self._run = self._start(self._saved_id() or secrets.token_hex(4))

    @staticmethod
    def check(**options: Any) -> None:
        """Raise about an unknown mode, or if wandb is not installed."""
        require_choice("logger.mode", options["mode"], get_args(Mode))
        # a folder called wandb in the working directory makes the import succeed with an empty
        # namespace package where wandb is missing; only a real package has an origin
        spec = find_spec("wandb")
        if spec is None or spec.origin is None:
            raise ModuleNotFoundError(
                "logger=wandb needs a package that is not installed: "
                "pip install 'wandb>=0.31,<0.32', or choose logger=none"
            )

    @property
    def id(self) -> str:
        """Return the run's id at wandb, the same after a resume."""
        return self._run.id

    def log(self, metrics: Mapping[str, float], *, iteration: int, frames: int) -> None:
        """Send one record to wandb's own process."""
        # wandb's step cannot go back after a resume, hence our own axis and no step=
        self._run.log({"iteration": iteration, "frames": frames, **metrics})
        for name in (f"eval/{self._objective}", f"episode/{self._objective}"):
            if metrics.get(name, -math.inf) > self._best.get(name, -math.inf):
                self._best |= {name: metrics[name], f"{name}_frames": float(frames)}
                self._run.summary.update(self._shown_best())

    def summary(self, metrics: Mapping[str, float]) -> None:
        """Set the run's summary."""
        self._run.summary.update({**metrics, **self._shown_best()})

    def attach(self, kind: str, path: Path, *, frames: int) -> None:
        """Show a replay among the media, or keep a checkpoint as an artifact."""
        import wandb

        if kind == REPLAY:
            self._run.log({"frames": frames, "replay": wandb.Html(str(path), inject=False)})
            return
        artifact = wandb.Artifact(
            f"checkpoint-{self._run.id}", "model", metadata={"frames": frames}
        )
        artifact.add_file(str(path))
        self._run.log_artifact(artifact, aliases=[kind])

    def state_dict(self) -> dict[str, Any]:
        """Return the id under which the curves continue, and the best values so far."""
        return {"id": self._run.id, "best": dict(self._best)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue the curves of another run directory's run."""
        best = state.get("best")
        self._best = numbers(best) if isinstance(best, Mapping) else {}
        if state["id"] != self._run.id:
            self._run.finish()
            self._run = self._start(str(state["id"]))

    def close(self) -> None:
        """Finish the run; stop an upload after a minute (`wandb sync` completes it)."""
        self._run.finish()
        for variable, value in self._before.items():  # the next run has folders of its own
            os.environ.pop(variable, None)
            if value is not None:
                os.environ[variable] = value

    def _shown_best(self) -> dict[str, float]:
        return {f"best/{name}": value for name, value in self._best.items()}

    def _start(self, run_id: str) -> wandb.Run:
        if not re.fullmatch(r"[\w-]{1,64}", run_id):  # it becomes part of a path
            raise ValueError(f"wandb run id {run_id!r} must be letters, digits, _ and - only")
        write_atomically(self._id_file, f"{run_id}\n")
        if self._mode != "online":
            return self._open(run_id, self._mode)
        import wandb

        reason = ""
        try:
            if wandb.login(prompt=False):
                return self._open(run_id, "online")
            reason = "not logged in (run `wandb login` once)"
        except (wandb.Error, OSError, ValueError, RuntimeError) as error:
            reason = str(error).partition("\n")[0]
        _LOG.warning("wandb continues offline: %s", reason)
        self._mode = "offline"
        return self._open(run_id, "offline")

    def _open(self, run_id: str, mode: Mode) -> wandb.Run:
        import wandb  # takes 0.3 s and a process: only if it is used

        settings = wandb.Settings(
            allow_offline_artifacts=self._checkpoints,
            console="off",
            disable_code=True,
            disable_git=True,  # a remote's address may hold a token; the commit is in our record
            finish_timeout=60.0,
            init_timeout=self._timeout_s,
            silent=True,
            x_transaction_log_flush_interval=1.0,  # else a kill -9 loses fifteen seconds
        )
        run = wandb.init(
            **self._arguments,
            dir=str(self._directory),
            id=run_id,
            mode=mode,
            reinit="create_new",  # leave a run alone that other code opened in this process
            resume="allow" if mode == "online" else None,
            save_code=False,
            settings=settings,
        )
        run.define_metric("frames")
        run.define_metric("*", step_metric="frames")
        return run

    def _saved_id(self) -> str:
        return read_text(self._id_file).strip() if self._id_file.exists() else ""


def _sweep_of(directory: Path) -> str | None:
    """Return the name of the sweep that the run is a job of, as <env>-<agent>/<date>-<time>."""
    sweep = directory.absolute().parent
    return "/".join(sweep.parts[-2:]) if (sweep / _OF_A_SWEEP).is_file() else None


def _confined(root: Path, *, online: bool) -> dict[str, str]:
    """Return the environment in which wandb writes to folders of the run directory only, and is silent."""
    # never a folder called .wandb: wandb-core would write there and the Python half to wandb/
    make_directory(root)
    require_contained(root)
    # Where wandb looks for settings; those of a run from elsewhere could name folders to write to.
    (root / "local" / "config" / "settings").unlink(missing_ok=True)
    folders = {
        "WANDB_DATA_DIR": "data",
        "WANDB_CACHE_DIR": "cache",
        "WANDB_CONFIG_DIR": "config",
        "WANDB_ARTIFACT_DIR": "artifacts",
    }
    if online:  # the address of a private server is in the user's settings
        del folders["WANDB_CONFIG_DIR"]
    inside = {name: str((root / "local" / folder).resolve()) for name, folder in folders.items()}
    return {**inside, "WANDB_ERROR_REPORTING": "false", "WANDB_SILENT": "true"}
