"""The workspace of wandb, and an online run: what a stand-in for wandb's server on this machine receives."""

import http.server
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from navrl.loggers.jsonl import read_iterations
from navrl.view.report import Run, report
from tests.runs import write_run

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "wandb_workspace.py"
pytestmark = pytest.mark.commands


ANSWERS = {
    "Viewer": {"viewer": {"id": "v", "username": "me", "entity": "me", "flags": "{}"}},
    "UpsertView2": {"upsertView": {"view": {"id": "1", "name": "nw-abc-v"}, "inserted": True}},
    "RunResumeStatus": {"model": None},
    "UpsertBucket": {
        "upsertBucket": {
            "bucket": {
                **{"id": "b", "name": "abc", "displayName": "n", "config": "{}"},
                "project": {"id": "p", "name": "navrl", "entity": {"id": "e", "name": "me"}},
            },
            "inserted": True,
        }
    },
    "CreateRunFiles": {"createRunFiles": {"runID": "b", "uploadHeaders": [], "files": []}},
    "OrganizationCoreWeaveOrganizationID": {"entity": None},
}


class Server:
    """A server that knows as much of wandb's GraphQL as its client asks here; nothing else answers."""

    def __init__(self):
        self.queries, self.rows = [], []
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                answer = {} if "file_stream" in self.path else {"data": server.answer(body)}
                if "file_stream" in self.path:
                    lines = body.get("files", {}).get("wandb-history.jsonl", {}).get("content", [])
                    server.rows += [json.loads(line) for line in lines]
                content = json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_):
                """Print nothing."""

        self._http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    def answer(self, body):
        name = next((name for name in ANSWERS if name in body["query"]), "unknown")
        self.queries.append((name, body.get("variables", {})))
        return ANSWERS.get(name, {})

    def variables(self, wanted):
        return [variables for name, variables in self.queries if name == wanted]

    def run(self, home, *words):
        """Run Python as a user who is logged in here."""
        clean = {key: value for key, value in os.environ.items() if not key.startswith("WANDB")}
        place = {"HOME": str(home), "PYTHONPATH": str(ROOT), "NO_PROXY": "*"}
        address = f"http://127.0.0.1:{self._http.server_port}"
        key = {"WANDB_API_KEY": "k" * 40, "WANDB_BASE_URL": address}
        return subprocess.run(
            [sys.executable, *words],
            env={**clean, **place, **key, "WANDB_ERROR_REPORTING": "false"},
            cwd=home,
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )

    def close(self):
        self._http.shutdown()
        self._http.server_close()


@pytest.fixture
def server():
    standing = Server()
    yield standing
    standing.close()


def test_the_layout_has_the_panels_of_the_report_and_saving_sends_it(tmp_path, server):
    run = write_run(tmp_path / "outputs/run", env="alice_and_bob", agent="hmasd")
    file = tmp_path / "workspace.json"
    done = server.run(tmp_path, str(SCRIPT), str(run), "--output", str(file))
    assert done.returncode == 0, done.stderr
    assert server.queries == []  # nothing is sent unless --save
    layout = json.loads(file.read_text())
    *sections, replay = layout["spec"]["section"]["panelBankConfig"]["sections"]
    rows = read_iterations(run / "metrics.jsonl")
    page = report([Run("a", "a", 0, "finished", "success", rows, {})], title="", subtitle="")
    found = {section["name"]: len(section["panels"]) for section in sections}
    drawn = {each["title"]: len(each["charts"]) for each in page["sections"] if each["charts"]}
    assert all(
        found[title] >= number for title, number in drawn.items()
    )  # constants are text there
    assert replay["panels"][0]["config"]["mediaKeys"] == ["replay"]
    panels = [panel["config"] for section in sections for panel in section["panels"]]
    assert {panel["xAxis"] for panel in panels} == {"frames"}
    shown = [metric for panel in panels for metric in panel["metrics"]]
    logged = {name for row in rows for name in row if "/" in name}
    assert sorted(shown) == sorted(logged - {"episode/count"})
    done = server.run(tmp_path, str(SCRIPT), str(run), "--entity", "team", "--save")
    assert done.returncode == 0, done.stderr
    (sent,) = server.variables("UpsertView2")
    assert (sent["entityName"], sent["projectName"]) == ("team", "navrl")
    assert sent["displayName"] == "navrl report"
    assert without_ids(json.loads(sent["spec"])) == without_ids(layout["spec"])


def without_ids(value):
    """Return a layout without the ids that are drawn anew for every one."""
    if isinstance(value, dict):
        return {k: without_ids(v) for k, v in value.items() if k not in ("__id__", "id")}
    return [without_ids(item) for item in value] if isinstance(value, list) else value


ONLINE = """
import pathlib
from navrl.loggers import WandbLogger
options = dict(mode="online", project="navrl", entity=None, group="seeds", job_type=None, notes="a try",
               tags=["a"], replay=False, checkpoints=False, init_timeout_s=15.0)
logger = WandbLogger(directory=pathlib.Path("run"), name="combat-ppo seed=1 ab12",
                     config={"seed": 1, "env": {"objective": "win"}}, **options)
for i in range(1, 4):
    logger.log({"eval/win": i / 4}, iteration=i, frames=64 * i)
logger.close()
"""


def test_an_online_run_sends_its_description_and_every_row(tmp_path, server):
    (tmp_path / "run").mkdir()
    done = server.run(tmp_path, "-c", ONLINE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "offline" not in done.stdout + done.stderr
    first, *_ = server.variables("UpsertBucket")
    assert (first["displayName"], first["groupName"]) == ("combat-ppo seed=1 ab12", "seeds")
    assert (first["jobType"], first["notes"], first["tags"]) == ("train", "a try", ["a"])
    config = json.loads(first["config"])
    assert config["env"]["value"] == {"objective": "win"}
    sent = [(row["frames"], row["eval/win"]) for row in server.rows]
    assert sent == [(64, 0.25), (128, 0.5), (192, 0.75)]
