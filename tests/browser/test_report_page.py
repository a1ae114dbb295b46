"""The report in a real browser: charts are drawn, legends switch lines, a pointer shows numbers."""

import pytest

from navrl.commands.report import main
from tests.runs import write_run

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """Two groups of three seeds."""
    folder = tmp_path_factory.mktemp("sweep")
    for number, (agent, seed) in enumerate([(a, s) for a in ("hmasd", "mappo") for s in (1, 2, 3)]):
        write_run(folder / str(number), agent=agent, seed=seed)
    assert main([str(folder)]) == 0
    return folder / "report/report.html"


def card(page, title):
    """The chart of that title."""
    return page.locator("figure.card", has=page.locator(f"figcaption:text-is('{title}')"))


@pytest.mark.parametrize("phone", [False, True])
def test_everything_is_drawn_within_the_width(show, report, phone):
    opened = show(report, phone=phone)
    page = opened.page
    assert page.inner_text("#title") == "6 runs of alice_and_bob with hmasd and mappo"
    titles = page.locator("h2").all_inner_texts()
    assert titles == [
        *("Final evaluation", "Learning", "Reward", "Skills", "Rollouts", "Performance", "Runs")
    ]
    seen = page.locator("figure.card:visible")
    assert seen.count() >= 10
    for index in range(seen.count()):
        paths = seen.nth(index).locator("path[d^='M']")
        assert paths.count() >= 1, seen.nth(index).inner_text()
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    page.click("summary")
    opened.settle()
    assert card(page, "loss/policy").locator("path.mean[d^='M']").count() == 2


def test_the_legend_switches_lines_off_and_on(show, report):
    opened = show(report)
    success = card(opened.page, "success")
    assert success.locator("path.mean").count() == 4
    assert success.locator("path.single").count() == 6
    key = success.get_by_role("button", name="mappo", exact=True)
    key.click()
    assert key.get_attribute("aria-pressed") == "false"
    assert success.locator("path.mean").count() == 3
    key.click()
    assert success.locator("path.mean").count() == 4


def test_a_pointer_shows_what_is_under_it(show, report):
    page = show(report).page
    box = card(page, "success").locator("svg").bounding_box()
    page.mouse.move(box["x"] + box["width"] - 12, box["y"] + 60)
    lines = page.inner_text("#tooltip").split("\n")
    # At the end seeds 1, 2 and 3 have 0.93, 0.96 and 0.99.
    assert lines == ["12k frames", "hmasd  0.96 ± 0.03", "mappo  0.96 ± 0.03"]
    page.mouse.move(2, 2)
    assert page.is_hidden("#tooltip")


def test_shares_fill_the_chart(show, report):
    page = show(report).page
    parts = card(page, "hmasd: skills of agents, share of decisions").locator("path.part")
    heights = [parts.nth(i).bounding_box()["height"] for i in range(parts.count())]
    assert len(heights) == 4
    assert max(heights) - min(heights) < 1.5, "a quarter each"


def test_tables_have_means_and_runs(show, report):
    page = show(report).page
    finals = page.locator("table.finals tbody tr").all_inner_texts()
    assert finals[0].split("\t") == [
        "hmasd",
        "alice_and_bob",
        "success",
        "0.92 ± 0.01",
        "0.91  0.92  0.93",
    ]
    runs = page.locator("table.runs tbody tr").all_inner_texts()
    assert runs[0].split("\t") == ["0", "1", "finished", "12k", "24 s", "500"]
    assert len(runs) == 6
