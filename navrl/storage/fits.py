"""Compares stored tensors with a model's before anything is copied."""

from collections.abc import Mapping

from torch import Tensor


class CheckpointMismatch(ValueError):  # noqa: N818 (it says what it is without a suffix)
    """The checkpoint is intact, but belongs to another model."""


def check_fits(expected: Mapping[str, Tensor], found: Mapping[str, Tensor], what: str) -> None:
    """Raise unless names, shapes and dtypes agree; `what` names the file in the message."""
    misfits = [_misfit(name, tensor, found, what) for name, tensor in expected.items()]
    strangers = [name for name in found if name not in expected]
    misfits += [f"{name!r} is in {what} but not in the model" for name in strangers]
    faults = [misfit for misfit in misfits if misfit]
    if faults:
        others = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        raise CheckpointMismatch(
            f"checkpoint does not fit: {faults[0]}{others}; use the same env and agent options"
        )


def _misfit(name: str, tensor: Tensor, found: Mapping[str, Tensor], what: str) -> str | None:
    if name not in found:
        return f"{name!r} is in the model but not in {what}"
    stored = found[name]
    if stored.shape != tensor.shape:
        shapes = tuple(stored.shape), tuple(tensor.shape)
        return f"{name!r} has shape {shapes[0]} in {what} and {shapes[1]} in the model"
    if stored.dtype != tensor.dtype:
        return f"{name!r} has dtype {stored.dtype} in {what} and {tensor.dtype} in the model"
    return None
