"""The page of a search in a real browser: plots are drawn, a pointer names a trial, nothing is too wide."""

import pytest

from navrl.tune.report import write_results
from navrl.tune.search import Search
from tests.tune.studies import FRAMES, plan

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def search_page(tmp_path_factory):
    """Six trials with two goals."""
    made = plan(tmp_path_factory.mktemp("studies") / "fast", trials=6, cost=True)
    search = Search(made)
    for number in range(6):
        trial = search.next()
        score = [0.5 + 0.05 * number]
        search.end(trial, "complete", scores=score, cpu_s=10.0 + number, frames=FRAMES)
        trial.lock.release()
    write_results(made, search)
    return made.folder / "report.html"


@pytest.mark.parametrize("phone", [False, True])
def test_every_plot_has_its_trials(show, search_page, phone):
    page = show(search_page, phone=phone).page
    assert page.inner_text("#title") == "search fast"
    assert page.inner_text("#outcome") == "win 0.750"
    titles = page.locator("h2").all_inner_texts()
    assert [title for title in titles if title != "What matters"] == [
        *("Train with the best options", "History", "Options", "Trials")
    ]
    for title in ("win by trial, and the best so far", "agent.num_epochs"):
        card = page.locator("figure.card", has=page.locator(f"figcaption span:text-is('{title}')"))
        assert card.locator("circle.trial").count() == 6
    assert page.locator("table.runs tbody tr").count() == 6
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_a_pointer_names_the_trial(show, search_page):
    page = show(search_page).page
    page.locator("figure.card").first.locator("circle.trial").nth(2).hover()
    assert page.inner_text("#tooltip").startswith("trial 2, complete\nwin 0.6, 12 CPU s")
