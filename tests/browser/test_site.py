"""The site of the documents in a browser: nothing is fetched from elsewhere, search works in a folder."""

import logging
from pathlib import Path

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site as `make docs` builds it, strictly."""
    folder = tmp_path_factory.mktemp("site")
    logging.getLogger("mkdocs").setLevel(logging.ERROR)
    build(load_config(str(ROOT / "docs/site/mkdocs.yml"), site_dir=str(folder)))
    return folder


@pytest.fixture
def page(chromium):
    """A page in which no script may fail and nothing may be fetched but files."""
    context = chromium.new_context()
    opened, problems, requests = context.new_page(), [], []
    opened.on("pageerror", lambda error: problems.append(str(error)))
    opened.on("request", lambda request: requests.append(request.url))
    yield opened
    context.close()
    assert problems == []
    assert [url for url in requests if not url.startswith("file://")] == []


@pytest.mark.parametrize("name", ["index", "first_steps", "options", "reference/python"])
def test_pages_need_no_network(site, page, name):
    page.goto((site / f"{name}.html").as_uri())
    page.wait_for_timeout(500)
    pictures = page.locator("article img").evaluate_all("all => all.map((i) => i.naturalWidth)")
    assert all(pictures), pictures
    assert page.locator("article h1").count() == 1


def test_search_works_without_a_server(site, page):
    page.goto((site / "index.html").as_uri())
    page.click("input.md-search__input")
    page.keyboard.type("truncated")
    found = page.locator(".md-search-result__item")
    found.first.wait_for()
    assert found.locator("a[href*='other_worlds.html']").count() >= 1
