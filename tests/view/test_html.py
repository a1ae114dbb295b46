"""The page is one file: no request, no way out of the data, nothing that is not in it."""

import base64
import hashlib
import json
import re
from pathlib import Path

import pytest

import navrl.view
from navrl.view.html import (
    COMBAT,
    GALLERY,
    NAVIGATION,
    PLAY,
    PLAY_DRONE,
    POPULATION,
    REPORT,
    SEARCH,
    WATCH,
    WORLD,
    page,
)

ALL = {
    **{"combat": COMBAT, "navigation": NAVIGATION, "play": PLAY},
    **{"play_drone": PLAY_DRONE, "report": REPORT, "population": POPULATION},
    **{"search": SEARCH, "world": WORLD, "gallery": GALLERY, "watch": WATCH},
}
SCENES = pytest.mark.parametrize("scene", ALL.values(), ids=ALL)
PAGE = Path(navrl.view.__file__).parent / "page"
_OWN_SERVER = {"href=", "fetch("}  # which its policy lets a live page call, and no other
HOSTILE = "</script><script>alert(1)</script><!-- ]]> {{data}} \u2028 \"quoted\" & 'single' \\u003c"


def scripts_of(text):
    return re.findall(r"<script>(.*?)</script>", text, re.DOTALL)


def data_of(text):
    (found,) = re.findall(
        r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL
    )
    return json.loads(found)


def test_the_data_comes_back_and_cannot_get_out():
    data = {"title": HOSTILE, "list": [1, 2.5, None, True], HOSTILE: "{{title}}"}
    text = page(COMBAT, data)
    assert data_of(text) == data
    assert len(scripts_of(text)) == len(scripts_of(page(COMBAT, {"title": "plain"})))
    assert "alert(1)</script>" not in text
    assert "<title>&lt;/script&gt;&lt;script&gt;alert(1)" in text


def test_numbers_that_json_has_not_are_refused():
    with pytest.raises(ValueError, match="JSON"):
        page(COMBAT, {"title": "x", "speed": float("nan")})


@SCENES
def test_the_policy_of_the_page_allows_its_scripts_and_nothing_else(scene):
    text = page(scene, {"title": "x"})
    (policy,) = re.findall(r'Content-Security-Policy" content="(.*?)"', text)
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    (style,) = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    for part in (style, *scripts_of(text)):
        digest = base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy


@SCENES
def test_it_points_at_nothing_outside(scene):
    text = page(scene, {"title": "x"})
    found = re.findall(r"https?://|//\w+\.|\bsrc=|\bhref=|url\(|@import|fetch\(|XMLHttp", text)
    assert {*found} - (_OWN_SERVER if scene is WATCH else set()) == set()
    assert re.findall(r"\{\{\w+\}\}", text) == [], "every place of the template is filled"
    assert re.findall(r"innerHTML|document\.write|\beval\(", text) == []


def test_every_file_of_the_page_is_used_and_short():
    text = "".join(page(scene, {"title": "x"}) for scene in ALL.values())
    for file in PAGE.iterdir():
        content = file.read_text(encoding="utf-8")
        assert len(content.splitlines()) <= 300, file.name
        if file.name != "template.html":
            assert content.strip() in text, f"{file.name} is not in the page"
