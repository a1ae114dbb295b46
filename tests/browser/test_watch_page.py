"""The pages of navrl watch in headless Chromium, on a desk and on a phone, in both themes."""

import json
import time

import pytest

from navrl.run.lock import RunLock
from tests.browser.conftest import DESKTOP, PHONE, Opened
from tests.browser.contrast import TOO_PALE
from tests.live.serving import watching
from tests.runs import row, write_run

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("watched")
    for seed in range(3):
        write_run(path / f"outputs/x/seed{seed}", seed=seed)
    for name, status in {
        "trains": {"state": "running", "frames": 0},
        "fails": {"state": "failed", "reason": "ValueError: <b>no</b> such map", "frames": 12000},
        "gone": {"state": "running", "frames": 0},
    }.items():
        run = write_run(path / "outputs/x" / name)
        (run / "status.json").write_text(json.dumps(status))
        text = (run / "config.yaml").read_text()
        (run / "config.yaml").write_text(f"{text}total_frames: 100000\n")
    with RunLock(path / "outputs/x/trains"):
        yield path


@pytest.fixture(scope="module")
def server(folder):
    with watching(folder) as found:
        yield found


@pytest.fixture
def visit(chromium, server):
    """visit(phone=False, scheme="dark") -> the opened page; nothing may have gone wrong in it."""
    opened = []

    def visit(*, phone=False, scheme="dark"):
        settings = {**(PHONE if phone else DESKTOP), "color_scheme": scheme}
        opened.append(Opened(chromium, server.url, settings))
        opened[-1].wait_for("document.querySelectorAll('#all-runs tbody tr').length === 6")
        return opened[-1]

    yield visit
    for each in opened:
        each.context.close()
    for each in opened:
        assert each.problems == []
        elsewhere = [url for url in each.requests if not url.startswith(server.url)]
        assert elsewhere == []


def open_run(view, name):
    view.page.get_by_role("link", name=name, exact=True).click()
    view.wait_for("document.querySelectorAll('#report .chart svg').length > 3")


def add_row(folder, iteration):
    with (folder / "outputs/x/trains/metrics.jsonl").open("a") as file:
        file.write(json.dumps(row(iteration, 0, 100, "hmasd")) + "\n")


@pytest.mark.parametrize("scheme", ["dark", "light"])
@pytest.mark.parametrize("phone", [False, True], ids=["desk", "phone"])
def test_lists_and_runs_fit_and_can_be_read(visit, phone, scheme):
    view = visit(phone=phone, scheme=scheme)
    width = 390 if phone else 1280
    states = view.page.locator("#states").inner_text()
    for text in ("1 running", "3 finished", "1 stale", "1 failed"):
        assert text in states
    assert "ValueError: <b>no</b> such map" in view.page.locator("#all-runs").inner_text()
    assert view.page.evaluate("document.documentElement.scrollWidth") <= width
    assert view.page.evaluate(TOO_PALE) == []
    open_run(view, "trains")
    view.page.evaluate(
        "document.querySelectorAll('details').forEach((each) => { each.open = true; })"
    )
    view.settle()
    assert view.page.evaluate("document.documentElement.scrollWidth") <= width
    assert view.page.evaluate(TOO_PALE) == []


def test_charts_of_pages_that_were_left_are_forgotten(visit):
    view = visit()
    tools = view.context.new_cdp_session(view.page)
    tools.send("Performance.enable")

    def listeners_after(openings):
        for _ in range(openings):
            open_run(view, "seed0")
            view.page.get_by_role("link", name="all runs").click()
            view.wait_for("element('run').hidden")
        counts = []
        for _ in range(5):  # what one collection leaves of the last page the next one takes
            view.settle()
            tools.send("HeapProfiler.collectGarbage")
            metrics = tools.send("Performance.getMetrics")["metrics"]
            counts.append({each["name"]: each["value"] for each in metrics}["JSEventListeners"])
        return min(counts)

    first = listeners_after(2)
    assert listeners_after(4) < 1.5 * first


def test_a_row_is_on_the_page_within_a_second(visit, folder):
    view = visit()
    for iteration, place in ((20, "#all-runs"), (21, "#all-runs"), (22, "#run"), (23, "#run")):
        if iteration == 22:
            open_run(view, "trains")
        time.sleep(0.7)
        add_row(folder, iteration)
        started = time.monotonic()
        view.wait_for(f"document.querySelector('{place}').innerText.includes('{iteration}k')", 5.0)
        # A machine that does other things meanwhile; scripts/bench_watch.py measures on a quiet one.
        assert time.monotonic() - started < 3.0


def test_keys_alone_find_open_compare_and_stop(visit, folder):
    view = visit()
    view.press("/")
    view.page.keyboard.type("seed")
    view.wait_for("document.querySelectorAll('#all-runs tbody tr').length === 6")
    view.page.keyboard.press("ControlOrMeta+a")
    view.page.keyboard.type("trains")
    view.wait_for("document.querySelectorAll('#all-runs tbody tr').length === 1")
    view.press("Tab", "Tab", "Enter")  # the box, the link
    view.wait_for("document.querySelectorAll('#requests button').length === 3")
    view.page.locator("nav a").focus()
    view.press("Tab", "Enter")
    assert view.page.locator("#requests .sure").inner_text() == "really stop?"
    requested = folder / "outputs/x/trains/requests/stop"
    assert not requested.exists()
    view.press("Enter")
    view.wait_for("document.getElementById('answer').textContent.includes('saves and ends')")
    assert requested.exists()
    view.press("Backspace")
    view.wait_for("!document.getElementById('list').hidden")


def test_two_recordings_play_side_by_side_from_the_same_moment(chromium, pages, tmp_path):
    run = write_run(tmp_path / "outputs/x/flies")
    (run / "status.json").write_text('{"state": "running", "frames": 0}')
    (run / "checkpoints").mkdir()
    for frames in (1000, 2000):
        (run / f"checkpoints/step_{frames:012}.ckpt").write_bytes(b"")
    program = tmp_path / "replay"  # the older one, which comes second, takes two seconds more
    program.write_text(
        '#!/bin/sh\ncase "$*" in *000001000*) sleep 2;; esac\nwhile [ "$1" != --output ]; do shift; done\n'
        f'cp "{pages / "duel.html"}" "$2"\n'
    )
    program.chmod(0o755)
    before = f"from navrl.live.watch import flights; flights.sys.executable = {str(program)!r}"
    with RunLock(run), watching(tmp_path, before=before) as found:
        view = Opened(chromium, found.url, DESKTOP)
        view.page.get_by_role("link", name="flies", exact=True).click()
        view.wait_for("!element('then-view').hidden && !element('now-view').hidden")
        view.page.locator("#flying").scroll_into_view_if_needed()
        view.page.wait_for_timeout(1500)
        frames = [each for each in view.page.frames if "/flights/" in each.url]
        times = [frame.evaluate("player.playing ? player.time : -1") for frame in frames]
        assert len(times) == 2
        assert min(times) > 0.5
        assert abs(times[0] - times[1]) < 4.0  # of 8 that the older one came later
        view.context.close()
        assert view.problems == []


def test_what_nothing_matches_is_named(visit, server):
    view = visit()
    view.page.locator("#filter").fill("zz <b>top")
    assert view.page.locator("#unmatched").inner_text() == "no run matches zz <b>top"
    view.page.locator("#filter").fill("trains")
    assert not view.page.locator("#unmatched").is_visible()
    for id, sentence in {
        "zzz": "no run has the id zzz",
        "0123456789ab": "this run is gone",
    }.items():
        view.page.evaluate("(id) => { window.location.hash = `run=${id}`; }", id)
        view.wait_for(f"element('fault').textContent.includes('{sentence}')")
        assert view.page.locator("#fault").is_visible()
    view.page.get_by_role("link", name="all runs").click()
    view.wait_for("document.querySelectorAll('#all-runs tbody tr').length === 1")


def test_a_save_that_was_asked_for_is_named_when_it_is_there(visit, folder):
    view = visit()
    open_run(view, "trains")
    view.page.evaluate("element('follow').click()")  # nothing is recorded
    view.page.get_by_role("button", name="save now").click()
    view.wait_for("element('answer').textContent === 'after its iteration it saves'")
    checkpoints = folder / "outputs/x/trains/checkpoints"
    checkpoints.mkdir()
    (checkpoints / "step_000000041000.ckpt").write_bytes(b"")
    add_row(folder, 41)
    view.wait_for("element('answer').textContent === 'saved: step_000000041000.ckpt'")


def test_seeds_are_compared_on_the_same_axes(visit):
    view = visit()
    view.page.locator("#filter").fill("finished")
    for box in view.page.locator("#all-runs tbody input").all():
        box.check()
    view.page.locator("#compare").click()
    view.wait_for("document.querySelectorAll('#report .chart svg').length > 3")
    assert view.page.locator("#title").inner_text() == "3 runs"
    assert view.page.locator("#report path.single").count() >= 3
    assert view.page.locator("#report path.band").count() >= 1


def test_what_the_user_chose_stays_when_data_come(visit, folder):
    view = visit()
    open_run(view, "trains")
    view.page.locator("#smoothing").evaluate(
        "(s) => { s.value = 0.5; s.dispatchEvent(new Event('input')); }"
    )
    view.page.locator("#report .chart").first.focus()
    view.press("+")
    add_row(folder, 31)
    view.wait_for("document.querySelector('#run').innerText.includes('31k')")
    assert view.page.evaluate("document.activeElement.classList.contains('chart')")
    assert view.page.locator("#smoothing").input_value() == "0.5"
    assert view.page.locator("#reset-zoom").is_visible()


def test_a_server_that_ends_is_said_and_found_again(chromium, folder):
    with watching(folder) as first:
        view = Opened(chromium, first.url, DESKTOP)
        view.wait_for("document.getElementById('link').textContent === 'live'")
    view.wait_for("document.getElementById('link').className === 'lost'")
    with watching(folder, "--port", str(first.port)):
        view.wait_for("document.getElementById('link').textContent === 'live'", 20.0)
    view.context.close()
