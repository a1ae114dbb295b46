"""The pages of a search and a population: plots are drawn, a pointer names a point, nothing is too wide."""

import pytest

from navrl.tune.evolution import first_generation, line_of, next_generation
from navrl.tune.population_report import best_of, page_data
from navrl.tune.report import write_results
from navrl.tune.search import Search
from navrl.view.html import POPULATION
from navrl.view.html import page as page_of
from tests.browser.contrast import readable
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
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]
    assert readable(page)


def test_a_pointer_names_the_trial(show, search_page):
    page = show(search_page).page
    page.locator("figure.card").first.locator("circle.trial").nth(2).hover()
    assert page.inner_text("#tooltip").startswith("trial 2, complete\nwin 0.6, 12 CPU s")


@pytest.fixture(scope="module")
def population_page(tmp_path_factory):
    """Three generations of four members, of which the last one is the best; one failed."""
    folder = tmp_path_factory.mktemp("populations") / "bred"
    made = plan(folder, population=4)._replace(interval=FRAMES // 3)
    members, generations = first_generation(made.space, 4, 7), []
    for generation in (1, 2, 3):
        scored = [
            each._replace(ended=True, score=0.2 * generation + 0.05 * each.number)
            for each in members
        ]
        if generation == 3:
            scored[0] = scored[0]._replace(score=None, fault="ValueError: <b>not</b> finite")
        generations.append(scored)
        members = next_generation(made.space, scored, generation + 1, 7)
    line = line_of(generations, best_of(generations[-1]).number)
    file = folder / "report.html"
    file.write_text(page_of(POPULATION, page_data(made, generations, line)), encoding="utf-8")
    return file


@pytest.mark.parametrize("phone", [False, True])
def test_every_member_of_a_population_is_drawn(show, population_page, phone):
    opened = show(population_page, phone=phone)
    page = opened.page
    assert page.inner_text("#outcome") == "win 0.750"  # 0.2 x 3 + 0.05 x 3
    cards = page.locator("figure.card")
    assert [cards.nth(at).locator("circle.trial").count() for at in range(3)] == [11, 12, 12]
    assert page.locator("table.runs").last.locator("tbody tr").count() == 12
    assert "ValueError: <b>not</b> finite" in page.inner_text("#report")
    cards.first.locator("circle.trial").last.hover()
    assert page.inner_text("#tooltip").startswith("generation 3, member 3: ")
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]
    assert readable(page)
