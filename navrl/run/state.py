"""What remembers a run: its folder, its saver and its loggers; a checkpoint and the way back from one."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch

from navrl.config.compose import to_json
from navrl.loggers.composite import Loggers
from navrl.run.directory import RunDirectory
from navrl.run.plan import Start
from navrl.storage.saver import SaveFailed


class Records(NamedTuple):
    """What remembers."""

    run: RunDirectory
    saver: Any
    loggers: Loggers
    rollouts: Any  # what keeps collected experience on disk
    evaluations: Any  # by whom the policy is measured now and then


def state_of(start: Start, learners: Any, records: Records, iteration: int) -> dict[str, Any]:
    """Everything that a fresh process needs to go on bit for bit."""
    return {
        "agent": learners.agent.state_dict(),
        "env": learners.env.runtime_state(),
        "collector": learners.collector.runtime_state(),
        "curriculum": learners.curriculum.state_dict(),
        "loggers": records.loggers.state_dict(),
        "evaluations": records.evaluations.state_dict(),
        "rng": rng_state(),
        "iteration": iteration,
        "frames": records.run.frames,
        "config": to_json(start.cfg),
        "choices": start.choices,
    }


def save(
    records: Records, state: dict[str, Any], score: float | None, stage: int, *, last: bool
) -> None:
    """Save the state; unless it is the last one, a full disk costs a checkpoint and not the run."""
    saver, note = records.saver, records.loggers.note
    try:
        if last:  # there is no hurry any more: it finds the queue empty, whatever checkpoint.when_full says
            _settle(records)
        saver.save(state, frames=state["frames"], score=score, stage=stage)
        if last:
            saver.flush()
    except OSError as error:
        if last or saver.on_error == "stop":
            raise SaveFailed(
                f"training ends, and a checkpoint is missing: {error}; "
                f"what is there: navrl checkpoint ls {records.run.path}"
            ) from error
        note(f"not saved ({error}); the run goes on and tries again")
        return
    try:  # with the frames that a crash would lose nothing of: what a thread still writes is none of them
        records.run.set_status("running", frames=saver.saved_frames)
    except OSError as error:
        note(f"status.json not written ({error}); the checkpoint is")


def _settle(records: Records) -> None:
    """What an earlier save failed of does not matter once a later one succeeds."""
    try:
        records.saver.flush()
    except OSError as error:
        records.loggers.note(f"not saved ({error})")


def restore(start: Start, records: Records) -> None:
    """Go on with the run's records where the checkpoint left them, and with its random numbers."""
    saved = start.saved
    if records.run.resumed:  # else this is a branch in a folder of its own, with its own records
        if saved is not None:
            records.loggers.load_state_dict(saved["loggers"])
        records.loggers.truncate_after(start.frames)
    if saved is not None:
        records.evaluations.load_state_dict(saved.get("evaluations", []), records.loggers.note)
        set_rng_state(saved["rng"])  # last: building everything drew random numbers


def rng_state() -> dict[str, Any]:
    """Return the states of Python's `random`, numpy's, torch's on the CPU and on every CUDA device."""
    version, words, gauss_next = random.getstate()
    return {
        "python": {
            "version": version,
            "words": torch.tensor(words, dtype=torch.int64),  # (625,) each below 2^32
            "gauss_next": gauss_next,
        },
        "numpy": _numpy_state(),
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def set_rng_state(state: Mapping[str, Any]) -> None:
    """Restore the states that `rng_state` returned; call it last, everything before may draw numbers."""
    python = state["python"]
    random.setstate((python["version"], tuple(python["words"].tolist()), python["gauss_next"]))
    numpy = dict(state["numpy"])
    words = numpy.pop("words").numpy().astype(np.uint32)
    np.random.set_state({**numpy, "state": {"key": words, "pos": numpy.pop("position")}})
    torch.set_rng_state(state["torch"])
    # A run may resume on a machine with fewer devices: states without a device are dropped.
    devices = torch.cuda.device_count() if torch.cuda.is_available() else 0
    for device, cuda_state in zip(range(devices), state["cuda"], strict=False):
        torch.cuda.set_rng_state(cuda_state, device)


def _numpy_state() -> dict[str, Any]:
    """Return the state of numpy's global generator, from which libraries and users may draw."""
    found = np.random.get_state(legacy=False)
    return {
        "bit_generator": found["bit_generator"],
        "words": torch.from_numpy(found["state"]["key"].astype(np.int64)),  # (624,)
        "position": int(found["state"]["pos"]),
        "has_gauss": int(found["has_gauss"]),
        "gauss": float(found["gauss"]),
    }
