"""Pages as single HTML files that need no network, no server and no second file.

template.html holds the parts of every page, player.html those that every replay adds (player, help); a scene
adds its own markup and scripts. The page's security policy lets a browser run exactly these scripts and
fetch nothing; a live page may call its server.
"""

import base64
import hashlib
import html
import json
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any, NamedTuple

from navrl.config.checks import printable

_PLAYER = ("track.js", "pointers.js", "player.js", "plane.js")
# Which server a WebSocket reaches is for the header to say: it knows the name that the browser uses.
_SERVER = "; connect-src 'self' ws: wss:; frame-src 'self'; img-src 'self' data:"
_PLACE = re.compile(r"\{\{(\w+)\}\}")


class Scene(NamedTuple):
    """The files of navrl/view/page that one kind of page adds."""

    markup: str
    below: str  # what follows the stage
    styles: tuple[str, ...]
    scripts: tuple[str, ...]  # the last one starts everything


COMBAT = Scene(
    "combat.html",
    "player.html",
    (),
    (
        *_PLAYER,
        "spacetime_data.js",
        "perspective.js",
        "spacetime_view.js",
        "combat_data.js",
        "combat_labels.js",
        "combat_map.js",
        "combat_panel.js",
        "combat.js",
    ),
)

NAVIGATION = Scene(
    "navigation.html",
    "player.html",
    ("navigation.css",),
    (
        *_PLAYER,
        "navigation_data.js",
        "navigation_world.js",
        "navigation_lidar.js",
        "navigation_map.js",
        "charts.js",
        "navigation_gallery.js",
        "navigation_panel.js",
        "navigation.js",
    ),
)

WORLD = Scene(
    "world.html",
    "player.html",
    ("world.css",),
    (*_PLAYER, "charts.js", "shapes.js", "world.js"),
)

_GAME = ("track.js", "pointers.js", "plane.js", "play_link.js", "play_stick.js", "play_game.js")

PLAY = Scene(
    "play_combat.html",
    "play_below.html",
    ("play.css",),
    (
        *_GAME,
        *("spacetime_data.js", "perspective.js", "spacetime_view.js"),
        *("combat_data.js", "combat_labels.js", "combat_map.js"),
        *("play_fight.js", "play_map.js", "play_combat_controls.js", "play_cockpit.js"),
        *("play_commentary.js", "play_combat_menu.js", "play_combat.js"),
    ),
)

PLAY_DRONE = Scene(
    "play_drone.html",
    "play_below.html",
    ("play.css", "play_drone.css"),
    (
        *_GAME,
        *("navigation_data.js", "navigation_world.js", "navigation_lidar.js", "navigation_map.js"),
        *("play_trip.js", "play_drone_controls.js", "play_drone.js"),
    ),
)

_CHARTS = ("elements.js", "chart_axis.js", "chart.js", "chart_input.js", "chart_save.js")

REPORT = Scene("report.html", "", ("report.css",), (*_CHARTS, "report_view.js", "report.js"))

WATCH = Scene(
    "watch.html",
    "",
    ("report.css", "watch.css"),
    (*_CHARTS, "report_view.js", "watch_list.js", "watch_run.js", "watch.js"),
)

GALLERY = Scene("report.html", "", ("report.css", "gallery.css"), (*_CHARTS, "gallery.js"))

SEARCH = Scene(
    "report.html", "", ("report.css", "search.css"), (*_CHARTS, "search_chart.js", "search.js")
)

POPULATION = Scene(
    "report.html", "", ("report.css", "search.css"), (*_CHARTS, "search_chart.js", "population.js")
)


def page(scene: Scene, data: Mapping[str, Any], *, live: bool = False) -> str:
    """Return the whole file; data["title"] is its title, and the scene's scripts read the rest.

    A live page may call the server that it came from, and show other pages of it.
    """
    scripts = [_read(name) for name in ("theme.js", *scene.scripts)]
    style = "\n".join(_read(name) for name in ("style.css", *scene.styles))
    parts = {
        "title": html.escape(printable(data["title"])),
        "style": style,
        "style_hash": _hash(style),
        "script_hashes": " ".join(map(_hash, scripts)),
        "server": _SERVER if live else "",
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


def differenced(values: Sequence[float]) -> list[int]:
    """Return whole numbers, differenced twice: along a smooth line they are small."""
    whole = [round(value) for value in values]
    for _ in range(2):
        whole = [after - before for after, before in zip(whole, [0, *whole], strict=False)]
    return whole
