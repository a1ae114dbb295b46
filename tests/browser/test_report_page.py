"""The report in a real browser: charts are drawn, legends switch lines, a pointer shows numbers."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from navrl.commands.report import main
from navrl.view.html import REPORT
from navrl.view.html import page as page_of
from navrl.view.report_figures import around
from tests.browser.contrast import TOO_PALE
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
    return page.locator("figure.card", has=page.locator(f"figcaption span:text-is('{title}')"))


@pytest.mark.parametrize("phone", [False, True])
def test_everything_is_drawn_within_the_width(show, report, phone):
    opened = show(report, phone=phone)
    page = opened.page
    assert page.inner_text("#title") == "6 runs of alice_and_bob with hmasd and mappo"
    titles = page.locator("h2").all_inner_texts()
    assert titles == [
        *("Final evaluation", "Learning", "Reward", "Skills", "Rollouts", "Performance", "Runs"),
        *("Configuration and origin",),
    ]
    seen = page.locator("figure.card:visible")
    texts = seen.locator("figcaption > span:first-child").all_text_contents()
    assert [text.partition("the same: ")[::2] for text in texts] == [
        ("success", ""),
        ("return", ""),
        ("hmasd: reward by term", "mappo: reward by term"),  # both groups have the same numbers
        ("hmasd: skills of the team, share of decisions", ""),
        ("hmasd: skills of agents, share of decisions", ""),
        ("hmasd: decisions by the reason they ended", ""),
        ("hmasd: time of an iteration by part", "mappo: time of an iteration by part"),
    ]
    for index in range(seen.count()):
        paths = seen.nth(index).locator("path[d^='M']")
        assert paths.count() >= 1, seen.nth(index).inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]
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
    box = card(page, "success").locator(".chart").bounding_box()
    page.mouse.move(box["x"] + box["width"] - 15, box["y"] + 60)
    # At the end seeds 1, 2 and 3 have 0.93, 0.96 and 0.99; t(0.975, 2) x 0.03 / sqrt(3) = 0.0745.
    rows = page.locator("#tooltip .row").all_inner_texts()
    assert page.inner_text("#tooltip .when") == "12k frames"
    assert [row.split() for row in rows] == [
        ["hmasd,", "training", "0.96", "(0.885..1)"],
        ["mappo,", "training", "0.96", "(0.885..1)"],
    ]
    page.mouse.move(2, 2)
    assert page.is_hidden("#tooltip")


def test_a_finger_reads_values_until_the_page_moves(show, report):
    opened = show(report, phone=True)
    page = opened.page
    chart = page.locator(".chart").first
    chart.scroll_into_view_if_needed()
    opened.settle()
    box = chart.bounding_box()
    page.touchscreen.tap(box["x"] + box["width"] - 15, box["y"] + 100)
    assert page.inner_text("#tooltip .when") == "12k frames"
    page.evaluate("window.scrollBy(0, 60)")
    opened.settle()
    assert page.is_hidden("#tooltip")


def places(page):
    """The texts of the axis of frames of the first chart."""
    return page.locator(".chart").first.locator("text.below:not(.axis)").all_text_contents()


def test_dragging_zooms_into_every_chart_and_keys_show_everything_again(show, report):
    opened = show(report)
    page = opened.page
    assert places(page) == ["0", "5k", "10k"]
    box = page.locator(".chart").first.bounding_box()
    left, width = box["x"] + 50, box["width"] - 64  # of the axis from 0 to 12k frames
    page.mouse.move(left + width / 2 + 1, box["y"] + 80)
    page.mouse.down()
    page.mouse.move(left + width, box["y"] + 90, steps=4)
    page.mouse.up()
    assert re.fullmatch("(5.9.|6|6.0.)k to 12k frames \u00d7", page.inner_text("#reset-zoom"))
    shown = page.locator(".chart").nth(1).locator("text.below:not(.axis)").all_text_contents()
    assert shown == ["8k", "10k", "12k"]  # 6k is the end of the axis, or just beyond
    page.locator(".chart").first.focus()
    page.keyboard.press("Escape")
    assert page.is_hidden("#reset-zoom")
    assert places(page) == ["0", "5k", "10k"]


def test_keys_alone_read_zoom_and_change_the_axis(show, report):
    opened = show(report)
    page = opened.page
    page.locator(".chart").first.focus()
    for key, frames in (("Home", "1k"), ("ArrowRight", "2k"), ("End", "12k"), ("ArrowLeft", "11k")):
        page.keyboard.press(key)
        assert page.inner_text("#tooltip .when") == f"{frames} frames"
    page.keyboard.press("+")
    # Half of the axis, with the cursor where it was: 11/12 of 12k, of which 11/12 of 6k lie before it.
    assert page.inner_text("#reset-zoom") == "5.5k to 11.5k frames \u00d7"
    page.keyboard.press("-")
    assert page.is_hidden("#reset-zoom")
    loss = page.locator("summary").first
    loss.focus()
    page.keyboard.press("Enter")
    opened.settle()
    chart = card(page, "loss/policy").locator(".chart")
    before = chart.locator("text.left").all_text_contents()
    chart.focus()
    page.keyboard.press("l")
    assert chart.locator("text.left").all_text_contents() == ["0.01", "0.02", "0.05"] != before


def test_smoothing_is_an_average_of_what_came_before(show, report):
    page = show(report).page
    # With weight w after n values: sum of w^(n-i) x_i over sum of w^(n-i).
    known = "smoothed([null, 1, null, 3, 8], 0.5)"
    assert page.evaluate(known) == [None, 1, None, (1 * 0.5 + 3) / 1.5, (0.25 + 1.5 + 8) / 1.75]
    success = card(page, "return")
    before = success.locator("path.mean").first.get_attribute("d")
    page.focus("#smoothing")
    for _ in range(10):
        page.keyboard.press("ArrowRight")
    assert page.inner_text(".controls output") == "0.2"
    assert success.locator("path.mean").first.get_attribute("d") != before
    assert before in [path.get_attribute("d") for path in success.locator("path.single").all()]


def test_new_data_keeps_what_the_user_chose(show, report):
    page = show(report).page
    page.evaluate(
        """() => {
          window.view = new ReportView(element("report"));
          const chart = (title, mean) => ({ title, unit: "", kind: "lines", settled: 0, same: [], zero: [],
            lines: [{ label: "a", tone: 0, mean }, { label: "b", tone: 1, mean }] });
          const page = { frames: [1, 2, 3, 4, 5, 6, 7, 8, 9], groups: [{}, {}], table: [], finals: [] };
          window.data = (...charts) => ({ ...page, sections: [
            { title: "S", text: "", constants: [], charts: charts.map((each) => chart(...each)) },
          ] });
          view.update(data(["x", [1, 2, 3]], ["z", [1, 2, 3]]));
        }"""
    )
    ours = page.locator("#report > div").last
    ours.get_by_role("button", name="a", exact=True).first.click()
    page.evaluate("view.zoom.set([2, 5])")
    page.evaluate("view.charts.get('S\\nx').node.dataset.same = 'yes'")
    page.evaluate("view.update(data(['x', [1, 2, 3, 4]], ['y', [1, 2, 3]]))")
    assert [
        text.split("\n")[0]
        for text in ours.locator("figcaption span:first-child").all_inner_texts()
    ] == ["x", "y"]
    first = ours.locator("figure.card").first
    assert first.get_attribute("data-same") == "yes"
    assert first.locator("path.mean").count() == 1
    assert page.evaluate("view.zoom.value") == [2, 5]


def test_first_values_that_dwarf_the_rest_are_cut_off_and_shown_on_request(show, tmp_path):
    data = {
        **{"title": "t", "subtitle": "", "badge": None, "groups": [{}], "table": [], "finals": []},
        "frames": [*range(1, 21)],
        "sections": [
            {
                "title": "S",
                "text": "",
                "folded": False,
                "constants": [],
                "charts": [
                    {
                        "title": "loss",
                        "unit": "loss",
                        "kind": "lines",
                        "settled": 1,
                        "same": [],
                        "zero": [],
                        "lines": [
                            {
                                "label": "a",
                                "tone": 0,
                                "mean": [900.0, *(1.0 + 0.1 * (i % 2) for i in range(19))],
                            }
                        ],
                    }
                ],
            }
        ],
    }
    file = tmp_path / "page.html"
    file.write_text(page_of(REPORT, data), encoding="utf-8")
    page = show(file).page
    assert page.text_content("text.note") == "first values, up to 900, are cut off"
    assert float(page.locator("text.left").last.text_content()) < 2
    page.get_by_role("button", name="first values").click()
    assert page.locator("text.note").count() == 0
    assert float(page.locator("text.left").last.text_content()) >= 500


AXES = [  # values, ends of their intervals
    ([], []),
    ([0.0], []),
    ([7.0, 7.0], []),
    ([-3.0], [-9.0, 1.0]),
    ([0.2, 0.9], [0.1, 0.95]),
    ([0.5, 0.9], [0.3, 1.4]),
    ([1.0, 1.0 + 1e-13], []),
    ([-0.5, 4.0], [-30.0, 30.0]),
    ([1e6, 3e6, 2.5e6], [0.4e6]),
    ([-2.0, -1.0], [-1.9]),
]


def test_figures_for_papers_have_the_axes_of_the_page(show, report):
    page = show(report).page
    for values, ends in AXES:
        shown = page.evaluate("([v, e]) => around(v, e)", [values, ends])
        drawn = around(np.array(values), np.array(ends))
        assert drawn == pytest.approx((shown["low"], shown["high"]), rel=1e-12), (values, ends)


def test_a_chart_is_saved_as_a_picture_of_its_own(show, report):
    page = show(report).page
    with page.expect_download() as downloaded:
        card(page, "success").get_by_role("button", name="SVG").click()
    assert downloaded.value.suggested_filename == "success.svg"
    picture = ElementTree.parse(downloaded.value.path()).getroot()
    texts = [node.text for node in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert {"success", "share of episodes", "frames", "hmasd", "mappo, training"} <= {*texts}
    lines = [node.get("stroke") for node in picture.iter("{http://www.w3.org/2000/svg}path")]
    assert "rgb(23, 105, 194)" in lines, "the light theme, whatever the page shows"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_and_lines_can_be_read_in_both_themes(show, report, theme):
    page = show(report).page
    page.emulate_media(color_scheme="dark" if theme == "light" else "light")
    page.get_by_role("button", name=theme, exact=True).click()  # other than the system's
    page.locator(".chart").first.focus()
    page.keyboard.press("End")  # the tooltip is text too
    page.mouse.move(2, 2)
    assert page.evaluate(TOO_PALE) == []


def test_paper_is_light_and_has_no_controls(show, report):
    page = show(report).page
    page.emulate_media(color_scheme="dark", media="print")
    assert (
        page.locator("button:visible, input:visible, summary:visible").count()
        == page.locator(".key:visible").count()
    )
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(23, 33, 44)"
    # Printers leave backgrounds out, but not the colours of the legends.
    marks = "getComputedStyle(document.querySelector('.key'), '::before').printColorAdjust"
    assert page.evaluate(marks) == "exact"


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
        "0.92 (0.895..0.945)",  # 4.303 x 0.01 / sqrt(3) = 0.0248
        "0.91  0.92  0.93",
    ]
    runs = page.locator("table.runs tbody tr").all_inner_texts()
    assert runs[0].split("\t") == ["0", "1", "finished", "12k", "24 s", "500"]
    assert len(runs) == 6
