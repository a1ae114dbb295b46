"""The state of the global random number generators as tensors and numbers."""

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch


def rng_state() -> dict[str, Any]:
    """The states of Python's `random`, numpy's, torch's on the CPU and on every CUDA device."""
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
    """Put back what `rng_state` returned; call it last, everything before may draw numbers."""
    python = state["python"]
    random.setstate((python["version"], tuple(python["words"].tolist()), python["gauss_next"]))
    if "numpy" in state:  # older checkpoints have none, and nothing of ours drew from it
        numpy = dict(state["numpy"])
        words = numpy.pop("words").numpy().astype(np.uint32)
        np.random.set_state({**numpy, "state": {"key": words, "pos": numpy.pop("position")}})
    torch.set_rng_state(state["torch"])
    # A run may resume on a machine with fewer devices: what has no device is dropped.
    devices = torch.cuda.device_count() if torch.cuda.is_available() else 0
    for device, cuda_state in zip(range(devices), state["cuda"], strict=False):
        torch.cuda.set_rng_state(cuda_state, device)


def _numpy_state() -> dict[str, Any]:
    """Of numpy's global generator, from which libraries and users may draw."""
    found = np.random.get_state(legacy=False)
    return {
        "bit_generator": found["bit_generator"],
        "words": torch.from_numpy(found["state"]["key"].astype(np.int64)),  # (624,)
        "position": int(found["state"]["pos"]),
        "has_gauss": int(found["has_gauss"]),
        "gauss": float(found["gauss"]),
    }
