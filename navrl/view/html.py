"""One page as one HTML file that needs nothing else: no network, no server, no second file.

template.html holds what every page has, player.html what every replay adds (player, help); a scene brings
its own markup and scripts. The page's own security policy lets a browser run exactly these scripts and
fetch nothing.
"""

import base64
import hashlib
import html
import json
import re
from collections.abc import Mapping
from importlib import resources
from typing import Any, NamedTuple

_PLAYED = ("track.js", "pointers.js", "player.js", "plane.js")
_PLACE = re.compile(r"\{\{(\w+)\}\}")


class Scene(NamedTuple):
    """What a kind of page adds: files of navrl/view/page."""

    markup: str
    below: str  # the stage
    styles: tuple[str, ...]
    scripts: tuple[str, ...]  # the last one starts everything


COMBAT = Scene(
    "combat.html",
    "player.html",
    (),
    (
        *_PLAYED,
        "graph_data.js",
        "perspective.js",
        "graph3d.js",
        "combat_data.js",
        "labels.js",
        "combat_map.js",
        "panel.js",
        "combat.js",
    ),
)

NAVIGATION = Scene(
    "navigation.html",
    "player.html",
    ("navigation.css",),
    (
        *_PLAYED,
        "navigation_data.js",
        "navigation_world.js",
        "navigation_lidar.js",
        "navigation_map.js",
        "navigation_charts.js",
        "navigation_gallery.js",
        "navigation_panel.js",
        "navigation.js",
    ),
)

REPORT = Scene("report.html", "", ("report.css",), ("report_chart.js", "report.js"))


def page(scene: Scene, data: Mapping[str, Any]) -> str:
    """The whole file; data["title"] names it, and the scene's scripts find the rest."""
    scripts = [_read(name) for name in ("theme.js", *scene.scripts)]
    style = "\n".join(_read(name) for name in ("style.css", *scene.styles))
    parts = {
        "title": html.escape(str(data["title"])),
        "style": style,
        "style_hash": _hash(style),
        "script_hashes": " ".join(map(_hash, scripts)),
        "stage": _read(scene.markup),
        "below": _read(scene.below) if scene.below else "",
        # A '<' could end the element or begin a comment; inside a JSON string this means the same.
        "data": json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c"),
        "scripts": "\n".join(f"<script>{script}</script>" for script in scripts),
    }
    return _PLACE.sub(lambda place: parts[place[1]], _read("template.html"))


def _read(name: str) -> str:
    return resources.files("navrl.view").joinpath("page", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
