"""Pictures and films, where the viz extra is installed; one sentence where it is not."""

import math
import struct

import pytest

from navrl.view import combat_picture, figure
from navrl.view.combat_recording import Track, recording
from tests.view.fights import duel


def test_a_missing_package_is_one_sentence_with_the_line_that_helps(monkeypatch):
    def absent(name):
        raise ImportError(name)

    monkeypatch.setattr(figure.importlib, "import_module", absent)
    with pytest.raises(ImportError, match=r"pip install 'navrl\[viz\]'") as caught:
        figure.check_viz()
    assert "matplotlib" in str(caught.value)


def test_between_knots_a_body_follows_its_circle():
    # A quarter of a circle of 1000 m at 200 m/s in three knots: 1000 * pi / 2 / 200 = 7.854 s.
    turns = [0.0, math.pi / 4, math.pi / 2]
    track = Track(
        time_s=[turn * 1000.0 / 200.0 for turn in turns],
        x_m=[1000.0 * math.sin(turn) for turn in turns],
        y_m=[1000.0 - 1000.0 * math.cos(turn) for turn in turns],
        heading_rad=turns,
        speed_mps=[200.0] * 3,
    )
    for step in range(40):
        turn = step / 39 * math.pi / 2
        x_km, y_km, heading_rad = combat_picture.position(track, turn * 5.0)
        assert math.hypot(x_km - math.sin(turn), y_km - 1.0 + math.cos(turn)) < 2e-3
        assert heading_rad == pytest.approx(turn, abs=1e-6)
    assert combat_picture.position(track, 99.0)[:2] == pytest.approx((1.0, 1.0))


@pytest.fixture(scope="module")
def recorded():
    pytest.importorskip("matplotlib", reason="the viz extra is not installed")
    return recording(*duel()[:2])


def test_a_picture(recorded, tmp_path):
    combat_picture.write_png(
        recorded, tmp_path / "a.png", title="Red against Blue", pilots=("ace", "bob")
    )
    content = (tmp_path / "a.png").read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    assert struct.unpack(">II", content[16:24]) == (1440, 1080)


def test_a_film_lasts_as_long_as_the_fight_at_four_times_its_speed(recorded, tmp_path):
    reader = pytest.importorskip("imageio_ffmpeg", reason="the viz extra is not installed")
    short = recorded._replace(times_s=[0.0, 4.0])  # the first four seconds
    combat_picture.write_mp4(
        short, tmp_path / "a.mp4", title="Red against Blue", pilots=("ace", "bob")
    )
    frames, seconds = reader.count_frames_and_secs(str(tmp_path / "a.mp4"))
    assert frames == 50  # one second of fight, one of the last picture, 25 a second
    assert seconds == pytest.approx(2.0, abs=0.1)
