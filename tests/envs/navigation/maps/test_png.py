"""Greyscale images: every filter undone, and hostile ones refused."""

import io
import zlib

import numpy as np
import pytest
from PIL import Image

from navrl.envs.navigation.maps.png import decode_png
from tests.envs.navigation.maps.map_files import chunk, png

SQUARE = np.full((4, 5), 200)


def refused(data):
    with pytest.raises(ValueError, match=r"^it \S|^its \S") as caught:
        decode_png(data, 10**6)
    return str(caught.value)


@pytest.mark.parametrize("kind", range(5))
@pytest.mark.parametrize("bits", [8, 16])
def test_every_filter_of_an_image_is_undone(kind, bits):
    pixels = np.random.default_rng(kind).integers(0, 2**bits, (6, 9))
    assert np.array_equal(decode_png(png(pixels, bits=bits, kinds=[kind] * 6), 54), pixels)


@pytest.mark.parametrize("bits", [8, 16])
def test_images_of_another_program_are_understood(bits):
    ramp = np.add.outer(np.arange(40), np.arange(60)) * (2 if bits == 8 else 600)
    image = io.BytesIO()
    Image.fromarray(ramp.astype(f"u{bits // 8}")).save(image, "PNG")
    assert np.array_equal(decode_png(image.getvalue(), 2400), ramp)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "no PNG image"),
        (b"GIF89a", "no PNG image"),
        (png(SQUARE, colour=2), "colour type 2"),
        (png(SQUARE, interlace=1), "interlace 1"),
        (png(SQUARE)[:-1], "cut off"),
        (png(SQUARE).replace(b"nothing", b"nothinG"), "a checksum is wrong"),
        (png(SQUARE, kinds=[0, 0, 4, 4]).replace(chunk(b"IEND", b""), b""), "cut off"),
        (b"\x89PNG\r\n\x1a\n" + chunk(b"IEND", b""), "header is damaged"),
        (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", b"1") + chunk(b"IEND", b""), "header is damaged"),
        (png(np.zeros((0, 5))), "5 x 0 pixels"),
    ],
)
def test_images_that_are_refused(data, sentence):
    assert sentence in refused(data)


def test_an_image_with_an_unknown_filter_or_a_broken_stream():
    small = png(SQUARE)
    head, end = small[: small.index(b"IDAT") - 4], chunk(b"IEND", b"")
    for packed, sentence in (
        (zlib.compress(b"\x07" + bytes(23)), "a row has filter 7"),
        (b"no stream", "damaged"),
    ):
        assert sentence in refused(head + chunk(b"IDAT", packed) + end)


def test_an_image_that_unpacks_to_more_than_its_header():
    big, small = png(np.zeros((500, 500)), kinds=[0] * 500, parts=1), png(SQUARE)
    start = big.index(b"IDAT") - 4
    head = small[: small.index(b"IDAT") - 4]
    assert "holds 25 bytes of pixels or more; expected 24" in refused(head + big[start:])
    assert "holds 0 bytes" in refused(head + chunk(b"IEND", b""))
    with pytest.raises(ValueError, match="5 x 4 pixels; expected 1 to 19"):
        decode_png(small, 19)
