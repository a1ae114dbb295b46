"""A second reader, written from docs/container_format.md alone: it shares no line with navrl."""

import hashlib
import json
import math
import struct
from pathlib import Path
from typing import Any

import lz4.block
import numpy as np
import torch

ITEM_BYTES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "int64": 8, "int32": 4}
ITEM_BYTES |= {"int16": 2, "int8": 1, "uint8": 1, "bool": 1}


def read(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Every tensor and the metadata; an assertion fails on anything that the format forbids."""
    file = path.read_bytes()
    assert file[:8] == bytes([0x4E, 0x56, 0x52, 0x4C, 0x03, 0x0D, 0x0A, 0x1A])
    header_len, payload_len, decoded_len = struct.unpack("<QQQ", file[8:32])
    text, payload = file[64 : 64 + header_len], file[64 + header_len :]
    assert hashlib.sha256(file[:32] + text).digest() == file[32:64]
    assert len(payload) == payload_len
    assert header_len % 64 == 0
    header = json.loads(text.decode("utf-8"))
    assert header["v"] == 3
    tensors, end, decoded = {}, 0, 0
    for name, dtype, shape, codec, filtering, axis, block_bytes, blocks in header["t"]:
        start = -(-end // 64) * 64
        assert payload[end:start] == bytes(start - end)
        item, raw, end = ITEM_BYTES[dtype], [], start
        left = math.prod(shape) * item
        decoded += left
        for stored_len, sha256 in blocks:
            stored, end = payload[end : end + stored_len], end + stored_len
            assert hashlib.sha256(stored).hexdigest() == sha256
            size = min(block_bytes, left)
            raw.append(values(stored, size, item, codec, filtering))
            left -= size
        assert left == 0
        words = [np.frombuffer(block, f"<u{item}") for block in raw]
        if axis is not None:  # every block holds whole rows, and in each the axis is last
            order = shape[1:axis] + shape[axis + 1 :] + [shape[axis]]
            words = [np.moveaxis(block.reshape(-1, *order), -1, axis) for block in words]
        whole = np.concatenate([block.reshape(-1) for block in words] or [np.zeros(0, f"<u{item}")])
        kind = getattr(torch, dtype)
        flat = torch.frombuffer(whole, dtype=kind) if len(whole) else torch.empty(0, dtype=kind)
        tensors[name] = flat.view(shape)
    assert (end, decoded) == (payload_len, decoded_len)
    return tensors, header["meta"]


def values(stored: bytes, size: int, item: int, codec: str, filtering: str) -> bytes:
    """One block, decompressed and with its bytes in their places."""
    if len(stored) == size:
        return stored
    assert codec == "lz4"
    stored = lz4.block.decompress(stored, uncompressed_size=size)
    data = np.frombuffer(stored, np.uint8)
    if filtering == "bits":
        whole = size // (8 * item) * (8 * item)
        planes = np.unpackbits(data[:whole], bitorder="little").reshape(item, 8, -1)
        words = np.packbits(planes.transpose(2, 0, 1), axis=-1, bitorder="little")
        return words.tobytes() + data[whole:].tobytes()
    if filtering == "none":
        return stored
    words = np.ascontiguousarray(data.reshape(item, -1).T).reshape(-1)
    if filtering == "delta+bytes":
        words = np.cumsum(words.view(f"<u{item}"), dtype=f"<u{item}")
    return words.tobytes()
