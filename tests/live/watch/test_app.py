"""What the server of navrl watch answers, without a network."""

import asyncio
import json
import os
import socket

import pytest

from navrl.commands.watch import main
from navrl.live.guard import Guard
from navrl.live.watch import flights as flights_module
from navrl.live.watch.app import Viewer, Watch, application
from navrl.live.watch.catalogue import Catalogue, Change
from navrl.live.watch.flights import Flights
from navrl.run.lock import RunLock
from navrl.run.requests import take_requests
from tests.live.requests import ask
from tests.runs import write_run

OURS = {"origin": "http://localhost:7425"}


@pytest.fixture
def run(tmp_path):
    return write_run(tmp_path / "outputs/one")


@pytest.fixture
def press(run, tmp_path, monkeypatch):
    """press(path) -> the answer of an app that has seen the run."""
    known = Catalogue([tmp_path / "outputs"])
    known.scan()
    monkeypatch.setattr("navrl.live.watch.app.Catalogue", lambda places: known)
    app = Guard(application([tmp_path / "outputs"], []), token=None, port=7425)
    (row,) = known.rows()
    return lambda path, **more: ask(
        app, path.format(id=row["id"]), **{"method": "POST", "headers": OURS, **more}
    )


def test_buttons_leave_requests_for_a_training(press, run):
    with RunLock(run):
        for name in ("stop", "save", "evaluate"):
            assert press(f"/runs/{{id}}/request/{name}").status == 200
            assert take_requests(run) == {name}
        assert press("/runs/{id}/request/delete").status == 404
        assert press("/runs/0123456789ab/request/stop").status == 404
        assert press("/runs/{id}/request/stop", method="GET").status == 405
        assert press("/runs/{id}/request/stop", headers={}).status == 403
        assert take_requests(run) == set()
    answer = press("/runs/{id}/request/stop")
    assert (answer.status, b"does not train" in answer.body) == (409, True)


@pytest.mark.parametrize("path", ["/flights/../../etc/passwd", "/flights/%2e%2e", "/flights/x"])
def test_no_file_is_served_by_its_name(press, path):
    assert press(path, method="GET").status == 404


def test_no_checkpoint_is_read_by_its_path(press, run):
    for name in ("step_000000001000.ckpt", "..", "config.yaml"):
        assert press(f"/runs/{{id}}/fly/{name}").status == 404


def test_the_page_reaches_nothing_but_its_server(press):
    answer = press("/", method="GET")
    assert answer.status == 200
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert b"http://" not in answer.body.replace(b"http://www.w3.org/2000/svg", b"")


def test_a_viewer_who_reads_slowly_gets_the_newest_state_once():
    viewer = Viewer()
    viewer.look_at(["a"], follows=False)
    viewer.due = False
    for frames in range(1000):
        viewer.change(Change([{"id": "a", "frames": frames}], []))
    assert viewer.rows == {"a": {"id": "a", "frames": 999}}
    assert viewer.due


def test_a_page_that_is_as_it_was_is_not_sent_again(run, tmp_path, monkeypatch):
    monkeypatch.setattr("navrl.live.watch.app._UPDATE_S", 0.0)
    sent = []

    class Socket:
        async def send_text(self, text):
            sent.append(next(iter(json.loads(text))))

    async def until(number):
        async with asyncio.timeout(20):
            while len(sent) < number:
                await asyncio.sleep(0.01)

    async def view():
        watch, viewer = Watch([tmp_path / "outputs"], []), Viewer()
        (row,) = watch.catalogue.scan().rows
        viewer.look_at([row["id"]], follows=False)
        writer = asyncio.create_task(watch._write(Socket(), viewer))
        await until(2)
        viewer.change(Change([row], []))
        await until(3)
        viewer.look_at([], follows=False)
        await asyncio.sleep(0.1)
        viewer.look_at([row["id"]], follows=False)
        await until(4)
        viewer.change(Change([row], []))
        await until(5)
        writer.cancel()
        await asyncio.gather(writer, return_exceptions=True)

    asyncio.run(view())
    assert sent == ["runs", "page", "changed", "page", "changed"]


def test_a_run_that_is_gone_shows_on_its_page_and_one_that_is_back_in_the_list():
    viewer = Viewer()
    viewer.look_at(["a"], follows=False)
    viewer.due = False
    viewer.change(Change([], ["a"]))
    assert (viewer.due, viewer.gone) == (True, {"a"})
    viewer.change(Change([{"id": "a"}], []))
    assert (viewer.rows, viewer.gone) == ({"a": {"id": "a"}}, set())


# ---- recordings ----


def recorded(tmp_path, script, *names, most_s=20.0):
    """Recordings of these checkpoints by another program than navrl replay."""

    async def record():
        flights = Flights([], lambda run: None)
        worker = asyncio.create_task(flights.work())
        asked = [flights.ask("r", tmp_path / name) for name in names]
        async with asyncio.timeout(most_s):
            while any(each and each.state in ("waiting", "recording") for each in asked):
                await asyncio.sleep(0.02)
        pages = [
            flights.page(each.id).read_text() if each and each.state == "there" else None
            for each in asked
        ]
        facts = flights.of("r")
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
        return pages, facts

    program = tmp_path / "replay"
    program.write_text(f"#!/bin/sh\n{script}\n")
    os.chmod(program, 0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flights_module.sys, "executable", str(program))
        return asyncio.run(record())


WRITE = 'while [ "$1" != --output ]; do shift; done; echo "<p>$(nice)" > "$2"'


def test_a_recording_has_the_lowest_priority_and_is_made_once(tmp_path):
    pages, facts = recorded(tmp_path, WRITE, "step_1.ckpt", "step_1.ckpt", "step_2.ckpt")
    assert pages == ["<p>19\n"] * 3
    assert [fact["file"] for fact in facts] == ["step_1.ckpt", "step_2.ckpt"]


def test_a_recording_that_fails_says_why(tmp_path):
    _, (fact,) = recorded(tmp_path, "echo 'navrl: error: no map' >&2; exit 2", "a")
    assert (fact["state"], fact["reason"]) == ("failed", "no map")


def test_a_recording_that_leaves_no_page_is_not_the_end_of_all(tmp_path):
    script = f'case "$*" in *first*) exit 0;; esac; {WRITE}'
    pages, facts = recorded(tmp_path, script, "first.ckpt", "second.ckpt")
    assert [fact["state"] for fact in facts] == ["failed", "there"]
    assert "No such file" in facts[0]["reason"]
    assert pages == [None, "<p>19\n"]


def test_a_page_that_is_too_large_is_deleted(tmp_path, monkeypatch):
    monkeypatch.setattr(flights_module, "_MOST_BYTES", 3)
    folders = []
    monkeypatch.setattr(
        Flights, "_forget_old", lambda self, _: folders.append(os.listdir(self._folder))
    )
    _, (fact,) = recorded(tmp_path, WRITE, "a")
    assert (fact["reason"], folders) == ("its page is too large", [[]])


def test_a_checkpoint_whose_recording_failed_is_not_recorded_again_by_itself(run, tmp_path):
    (run / "checkpoints").mkdir()
    (run / "checkpoints/step_000000001000.ckpt").write_bytes(b"")
    (run / "status.json").write_text('{"state": "running"}')
    watch = Watch([tmp_path / "outputs"], [])
    with RunLock(run):
        (row,) = watch.catalogue.scan().rows
        viewer = Viewer()
        viewer.look_at([row["id"]], follows=True)
        watch.viewers.add(viewer)
        watch._fly()
        flight = watch.flights.ask(row["id"], run / "checkpoints/step_000000001000.ckpt")
        flight.state = "failed"
        watch._fly()
        assert [each["id"] for each in watch.flights.of(row["id"])] == [flight.id]
        (run / "checkpoints/step_000000002000.ckpt").write_bytes(b"")
        watch._fly()
        states = [each["state"] for each in watch.flights.of(row["id"])]
        assert states == ["failed", "waiting"]


def test_a_recording_that_takes_too_long_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(flights_module, "_MOST_S", 0.3)
    _, (fact,) = recorded(tmp_path, "sleep 60 & wait", "a", most_s=10.0)
    assert fact["state"] == "failed"
    assert fact["reason"].startswith("stopped after")


def test_few_recordings_wait(tmp_path):
    names = [f"step_{at}.ckpt" for at in range(20)]
    pages, _ = recorded(tmp_path, WRITE, *names)
    assert sum(page is None for page in pages) == 12  # 8 may wait


def test_wrong_words_are_refused_before_the_server_starts(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "outputs/one")
    for word, sentence in {
        "opponent=crnk": "did you mean 'crank'?",
        "foo=1": "passes options on to navrl replay. Unknown option 'foo'",
        "nowhere": "no run, checkpoints directory or file is called 'nowhere'",
        "outputs/one/config.yaml": "is a file; expected a run or a folder with runs",
        "--port=99999": "expected a whole number from 1 to 65535",
        "--host=nowhere.invalid": "expected a name or an address of this machine",
    }.items():
        assert main([word]) != 0
        assert sentence in capsys.readouterr().err


def test_a_port_that_is_taken_is_one_sentence(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert main(["--port", str(taken.getsockname()[1])]) == 2
    assert "expected a port that this user may open and that nobody has" in capsys.readouterr().err
