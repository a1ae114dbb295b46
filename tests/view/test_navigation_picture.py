"""Pictures and films of trips, where the viz extra is installed."""

import struct

import pytest

from navrl.view import navigation_picture as picture
from tests.view.trips import recorded, shipped_params, trip

pytest.importorskip("matplotlib", reason="the viz extra is not installed")


def test_a_picture(tmp_path):
    story = recorded(1)
    picture.write_png(story, story.trips[0], tmp_path / "a.png", title="greedy")
    content = (tmp_path / "a.png").read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    assert struct.unpack(">II", content[16:24]) == (1440, 1080)


def test_what_moves_is_where_it_is_at_that_time():
    story = recorded(1)
    _, moving = picture._sheet(story, story.trips[0], "greedy")
    moving.show(2.0)
    _, _, column = (path.vertices[:-1].mean(0) for path in moving._movers.get_paths())
    assert column == pytest.approx([-1.0, 1.0], abs=1e-6)  # half way along its first line
    assert len(moving.path.get_segments()) == 20
    assert moving._shield.get_segments() == []
    moving.show(9.0)
    (part,) = moving._shield.get_segments()
    assert len(part) == 11, "ten tenths of a second under the shield"
    assert moving.path.get_array().mean() == pytest.approx(1.6, abs=0.02)


def test_a_film_lasts_as_long_as_the_trip(tmp_path):
    reader = pytest.importorskip("imageio_ffmpeg", reason="the viz extra is not installed")
    story = recorded(1)
    short = trip(shipped_params(), seconds=1.0)
    picture.write_mp4(story, short, tmp_path / "a.mp4", title="greedy")
    frames, seconds = reader.count_frames_and_secs(str(tmp_path / "a.mp4"))
    assert frames == 50  # one second of the trip, one of the last picture, 25 a second
    assert seconds == pytest.approx(2.0, abs=0.1)
