"""A gallery in a folder: names that are safe, nothing of others lost, links that stay inside."""

import json
import re

import pytest

from navrl.config.checks import ConfigError
from navrl.storage.files import UnsafePath
from navrl.view import gallery as gallery_module
from navrl.view.gallery import Entry, Gallery, Page


def entry(title="run one", content="<html>", **more):
    return Entry(
        title, "about", ["win 0.5"], [Page("win.html", content, "win", "after 3 s")], **more
    )


def made(folder, *entries):
    gallery = Gallery(folder)
    for each in entries:
        gallery.add(each)
    gallery.finish(title="Gallery", subtitle="s")
    return sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
    )


def links(folder):
    text = (folder / "index.html").read_text()
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])
    return [link["file"] for each in data["entries"] for link in each["links"]]


def test_an_index_leads_to_every_page(tmp_path):
    files = made(tmp_path / "g", entry(league="<svg/>"), entry("two"))
    assert files == [
        *("gallery.json", "index.html", "run-one/league.svg", "run-one/win.html", "two/win.html")
    ]
    assert links(tmp_path / "g") == ["run-one/win.html", "run-one/league.svg", "two/win.html"]


@pytest.mark.parametrize(
    ("title", "folder"),
    [
        ("../../etc", "etc"),
        (".ssh", "ssh"),
        ("a/b\\c", "a-b-c"),
        ("javascript:alert(1)", "javascript-alert-1"),
        ("\u202e", "run"),
        ("x" * 300, "x" * 80),
        ("index.html", "index.html-2"),
    ],
)
def test_names_of_runs_become_plain_folders(tmp_path, title, folder):
    made(tmp_path / "g", entry(title))
    assert links(tmp_path / "g") == [f"{folder}/win.html"]


def test_equal_names_are_kept_apart(tmp_path):
    made(tmp_path / "g", entry("Same"), entry("same"))
    assert links(tmp_path / "g") == ["Same/win.html", "same-2/win.html"]


def test_a_gallery_is_made_again_and_only_over_itself(tmp_path):
    folder = tmp_path / "g"
    made(folder, entry(content="old"))
    made(folder, entry(content="new"))
    assert (folder / "run-one/win.html").read_text() == "new"
    (folder / "other").mkdir()
    (folder / "other/win.html").write_text("mine")
    with pytest.raises(ConfigError, match="was not written by navrl gallery"):
        made(folder, entry("other"))
    assert (folder / "other/win.html").read_text() == "mine"


@pytest.mark.parametrize("manifest", [None, "{", "[]", '{"files": 3}'])
def test_a_folder_with_other_files_is_refused(tmp_path, manifest):
    (tmp_path / "index.html").write_text("mine")
    if manifest is not None:
        (tmp_path / "gallery.json").write_text(manifest)
    with pytest.raises(ConfigError, match="holds no gallery"):
        made(tmp_path, entry())
    assert (tmp_path / "index.html").read_text() == "mine"


def test_links_are_not_followed(tmp_path):
    (tmp_path / "away").mkdir()
    (tmp_path / "g").symlink_to(tmp_path / "away")
    with pytest.raises(UnsafePath):
        made(tmp_path / "g", entry())
    made(tmp_path / "h", entry("first"))
    (tmp_path / "h/run-one").symlink_to(tmp_path / "away")
    with pytest.raises(UnsafePath):
        made(tmp_path / "h", entry())
    assert [*(tmp_path / "away").iterdir()] == []


def test_its_size_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(gallery_module, "_MOST_BYTES", 1000)
    gallery = Gallery(tmp_path / "g")
    gallery.add(entry(content="x" * 900))
    with pytest.raises(ConfigError, match="name fewer runs"):
        gallery.add(entry("two", content="x" * 101))
    assert not (tmp_path / "g/two/win.html").exists()
