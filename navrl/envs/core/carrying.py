"""What a policy hands from step to step through its env: the memory of a recurrent one, the skill of now."""

import torch
from tensordict import TensorDict, TensorDictBase


def carry(handed_over: TensorDictBase, upcoming: TensorDict, opening: TensorDict) -> None:
    """What a policy hands to its next step goes along, and as zeros where an episode ended."""
    known = set(upcoming.keys(True, True))
    done = upcoming.get("done")
    for key in [key for key in handed_over.keys(True, True) if key not in known]:
        value = handed_over.get(key)
        ended = done.reshape(-1, *[1] * (value.ndim - 1))
        upcoming.set(key, value)
        opening.set(key, torch.where(ended, torch.zeros_like(value), value))
