"""Which coding suits a tensor: tried on a sample of it, since nothing else can tell."""

import enum
from collections.abc import Iterator

import numpy as np

from navrl.storage.blocks import AS_IS, EXPONENTS, FAST, Coding, Source
from navrl.storage.codec import LZ4, compress
from navrl.storage.filters import BITS, BYTES, DELTA_BYTES, NONE, Bytes, apply_filter

SAMPLE_BYTES = 64 << 10
_SAMPLE_SHARE = 16  # a small tensor is not tried on much more than itself
_LEAST_SAMPLE_BYTES = 4 << 10
_PIECES = 4  # of a sample, spread over the tensor
_WORTH_IT = 0.03  # of the raw size: a slower coding must save so much more


class Compress(enum.Enum):
    """What a writer may do to tensors; nothing is ever lost."""

    NOTHING = "nothing"  # stored as they are, so that they can be mapped
    WEIGHTS = "weights"  # the exponents of floating-point numbers are coded, the rest is left
    AUTO = "auto"  # whatever a sample of each tensor says


def choose(source: Source, compress: Compress, axis: int | None) -> Coding:
    """The coding of one tensor."""
    if compress is Compress.NOTHING or source.raw_bytes == 0:
        return AS_IS
    if compress is Compress.WEIGHTS:
        return EXPONENTS if _has_exponents(source) else FAST
    best, best_share = AS_IS, 1.0
    for coding in _candidates(source, axis):
        share = _share(source, coding)
        if share < best_share - _WORTH_IT:
            best, best_share = coding, share
    return best


def _has_exponents(source: Source) -> bool:
    return source.dtype.rstrip("0123456789") in ("float", "bfloat") and source.item_bytes > 1


def _candidates(source: Source, axis: int | None) -> Iterator[Coding]:
    """Codings to try, the faster ones first."""
    yield FAST
    if axis is not None and source.can_move(axis):
        for name in (NONE, BYTES, DELTA_BYTES):
            yield Coding(LZ4, name, axis)
    yield Coding(LZ4, BITS)
    if _has_exponents(source):
        yield EXPONENTS


def _share(source: Source, coding: Coding) -> float:
    """Stored over raw bytes of a sample."""
    raw = _sample(source, coding.axis)
    filtered = apply_filter(coding.filter, raw, source.item_bytes)
    return len(compress(coding.codec, filtered, source.item_bytes)) / raw.size


def _sample(source: Source, axis: int | None) -> Bytes:
    """A few pieces from all over the tensor as they would be stored, one after the other."""
    wanted = min(SAMPLE_BYTES, max(source.raw_bytes // _SAMPLE_SHARE, _LEAST_SAMPLE_BYTES))
    unit = source.item_bytes if axis is None else source.row_bytes
    units = source.raw_bytes // unit
    length = min(max(wanted // unit // _PIECES, 1), units)
    starts = sorted({int(start) for start in np.linspace(0, units - length, _PIECES)})
    scale = unit if axis is None else 1  # a piece counts bytes, or rows
    pieces = [slice(start * scale, (start + length) * scale) for start in starts]
    return np.concatenate([source.laid_out(piece, axis) for piece in pieces])
