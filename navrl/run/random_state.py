"""The random numbers of a process: Python's, numpy's and torch's, in a checkpoint and back."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from navrl.storage.schema import CheckpointMismatch, Each, Either, check, exactly, numbers, whole

_WORDS, _LARGEST = 624, 2**32 - 1  # of the Mersenne Twister, in Python and in numpy


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


def check_rng_state(state: Any, place: str) -> None:
    """Raise CheckpointMismatch unless set_rng_state can restore the state."""
    expected = rng_state()
    expected["python"] = {
        "version": exactly(3),
        "words": numbers(torch.int64, [_WORDS + 1], least=0, most=_LARGEST),
        "gauss_next": Either(None, 0.0),
    }
    expected["numpy"] |= {
        "bit_generator": exactly("MT19937"),
        "words": numbers(torch.int64, [_WORDS], least=0, most=_LARGEST),
        "position": whole(0, _WORDS),
        "has_gauss": whole(0, 1),
    }
    expected["cuda"] = Each(numbers(torch.uint8, [None]))
    check(state, expected, place)
    check(int(state["python"]["words"][-1]), whole(0, _WORDS), f"{place}/python/words/{_WORDS}")
    try:
        torch.Generator().set_state(state["torch"])
    except RuntimeError as error:  # torch knows which bytes are a state
        raise CheckpointMismatch(
            f"{place}/torch is no state of torch's random numbers ({error}); expected one"
        ) from error
