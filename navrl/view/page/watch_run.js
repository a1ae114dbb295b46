"use strict";
/* The page of one run, or of several side by side: facts, buttons, recorded episodes, charts, console, checkpoints. */

class RunView {
  constructor(requests) {
    this.requests = requests;
    this.report = null;
    this.ids = [];
    this.follow = element("follow");
    this.screens = ["then", "now"].map((name) => new Screen(name, (file) => this.fly(file), () => this.playAll()));
    this.plays = 0;
    this.saving = null; // the newest checkpoint when a new one was asked for
    element("fly-newest").addEventListener("click", async () => {
      const files = (this.page?.checkpoints ?? []).filter((each) => !each.fault).map(({ file }) => file);
      const alone = !this.page?.flights?.length && files.length > 1;
      await this.fly(files[0]);
      if (alone) await this.fly(files[files.length - 1]); // to compare with
    });
  }

  /** Begin with other runs. */
  open(ids) {
    this.ids = ids;
    this.page = null;
    this.saving = null;
    element("report").replaceChildren();
    this.report = null;
    for (const id of ["flying", "spent", "ends", "fault"]) element(id).hidden = true;
    for (const id of ["facts", "requests", "answer"]) element(id).replaceChildren();
    for (const screen of this.screens) screen.clear();
  }

  take(page) {
    if (page.ids.join() !== this.ids.join()) return;
    this.page = page;
    element("fault").hidden = !page.fault;
    element("fault").textContent = page.fault ?? "";
    if (page.fault) return;
    const [row] = page.rows;
    const single = page.rows.length === 1;
    element("title").textContent = single ? row.name : `${page.rows.length} runs`;
    element("subtitle").textContent = single ? `${row.env ?? "?"} with ${row.agent ?? "?"}, seed ${row.seed ?? "?"}` : "";
    if (single) this.showFacts(row);
    else element("facts").replaceChildren();
    this.showRequests(single && row.state === "running");
    element("spent").hidden = !page.times?.length;
    if (page.times?.length) showTimes(page.times);
    if (this.saving !== null && newest(page) !== this.saving) {
      this.answer(`saved: ${newest(page)}`);
      this.saving = null;
    }
    element("ends").hidden = !single || !page.checkpoints;
    if (single && page.checkpoints) this.showEnds(page);
    this.showFlying(single, row);
    if (page.report) {
      this.report ??= new ReportView(element("report"));
      this.report.update(page.report);
    }
  }

  showFacts(row) {
    const fact = (name, ...inside) => made("div", "", made("span", "name", name), ...inside);
    const reason = row.reason && row.state !== "running" ? [made("span", "name", row.reason)] : [];
    const [name, value, low, high, source] = row.objective ?? ["objective", null, null, null, ""];
    const bar = made("span", row.state, progressBar(row));
    const [speed, which] = row.state === "running" ? [row.fps, "now"] : [this.page.report?.table[0]?.fps, "mean"];
    const left = row.eta_s ? [fact("left", made("b", "", durationText(row.eta_s)))] : [];
    element("facts").replaceChildren(
      fact("state", made("b", `state ${row.state}`, row.state), ...reason),
      fact(source || name, made("b", "", isKnown(value) ? numberText(value) : "-"), made("span", "name", isKnown(low) ? `${numberText(low)} to ${numberText(high)}, 95 %` : name)),
      fact("frames", made("b", "", countText(row.frames ?? 0)), bar, made("span", "name", row.total ? `of ${countText(row.total)}` : "")),
      fact(`frames/s, ${which}`, made("b", "", speed ? countText(speed) : "-")),
      ...left,
    );
  }

  /** Buttons of a training; stop needs a second press. */
  showRequests(shown) {
    const room = element("requests");
    if (!shown) room.replaceChildren();
    if (!shown || room.childElementCount) return;
    room.append(...Object.entries(this.requests).map(([name, text]) => {
      const node = made("button", "", `${name} now`.replace("stop now", "stop"));
      node.title = `after its iteration it ${text}`;
      node.addEventListener("click", async () => {
        if (name === "stop" && !node.classList.contains("sure")) {
          node.classList.add("sure");
          node.textContent = "really stop?";
          setTimeout(() => {
            node.classList.remove("sure");
            node.textContent = "stop";
          }, 4000);
          return;
        }
        if (name === "save") this.saving = newest(this.page);
        this.answer(await post(`/runs/${this.ids[0]}/request/${name}`));
      });
      return node;
    }));
  }

  answer(text) {
    element("answer").textContent = text;
  }

  async fly(file) {
    if (file) this.answer(await post(`/runs/${this.ids[0]}/fly/${file}`));
  }

  /** Play the episodes side by side from the same moment, as soon as all are there. */
  playAll() {
    if (this.screens.some((screen) => screen.loads)) return;
    this.plays += 1;
    for (const screen of this.screens) screen.play(this.plays);
  }

  showFlying(single, row) {
    const flights = this.page.flights ?? [];
    const files = (this.page.checkpoints ?? []).filter((each) => !each.fault);
    element("flying").hidden = !single || !(flights.length || files.length);
    if (element("flying").hidden) return;
    this.follow.parentElement.hidden = row.state !== "running";
    const ready = flights.filter((flight) => flight.state === "there");
    this.screens[0].show(flights, files, ready.length > 1 ? ready[0] : null);
    this.screens[1].show(flights, files, ready[ready.length - 1] ?? null);
    const open = flights.find((flight) => flight.state === "recording") ?? flights.find((flight) => flight.state === "waiting");
    const failed = flights.filter((flight) => flight.state === "failed").pop();
    const text = open ? `recording ${frameText(open.file)} \u2026` : failed ? `${frameText(failed.file)}: ${failed.reason}` : "";
    if (element("flight-state").textContent !== text) element("flight-state").textContent = text;
  }

  showEnds(page) {
    const lines = element("console");
    lines.textContent = page.console.join("\n") || "nothing yet";
    showOnce(element("checkpoints"), page.checkpoints, () => [made("h2", "", "Checkpoints"), this.checkpointsTable(page.checkpoints)]);
  }

  checkpointsTable(checkpoints) {
    const rows = checkpoints.map((each) => {
      if (each.fault) return [each.file, each.fault, "", "", ""];
      const fly = button("record", `record an episode of ${each.file}`, null, () => this.fly(each.file));
      return [each.file, countText(each.frames), String(each.stage), isKnown(each.score) ? numberText(each.score) : "-", `${countText(each.size)}B`, fly];
    });
    return tableOf("checkpoints", ["checkpoint", "frames", "stage", "score", "size", ""], rows);
  }
}

/** One of the two places that show an episode. */
class Screen {
  constructor(name, record, loaded) {
    this.select = element(name);
    this.frame = element(`${name}-view`);
    this.chosen = null; // a file, once the user has chosen
    this.shown = "";
    this.loads = false;
    this.frame.addEventListener("load", () => {
      if (!this.loads) return;
      this.loads = false;
      loaded();
    });
    this.select.addEventListener("change", () => {
      this.chosen = this.select.value;
      const flight = this.flights.find(({ file }) => file === this.chosen);
      if (!flight || flight.state === "failed") record(this.chosen);
      this.show(this.flights, this.files, flight ?? null);
    });
  }

  clear() {
    this.chosen = null;
    this.shown = "";
    this.loads = false;
    this.frame.hidden = true;
    this.frame.removeAttribute("src");
    this.select.replaceChildren();
  }

  show(flights, files, first) {
    Object.assign(this, { flights, files });
    const names = [...new Set([...flights.map(({ file }) => file), ...files.map(({ file }) => file)])].sort();
    const flight = this.chosen ? flights.find(({ file }) => file === this.chosen) : first;
    const options = names.map((file) => {
      const known = flights.find((each) => each.file === file);
      const text = known ? (known.state === "there" ? "" : ` (${known.state})`) : " (to record)";
      return [file, `after ${frameText(file)}${text}`];
    });
    if (!this.chosen && !flight) options.unshift(["", "none yet"]);
    const text = JSON.stringify(options);
    if (this.select.dataset.shown !== text) {
      this.select.dataset.shown = text;
      this.select.replaceChildren(...options.map(([value, label]) => new Option(label, value)));
    }
    this.select.value = this.chosen ?? flight?.file ?? "";
    if (!flight || flight.state !== "there" || this.shown === flight.id) return;
    this.shown = flight.id;
    this.loads = true;
    this.frame.src = `/flights/${flight.id}`;
    this.frame.hidden = false;
  }

  /** Another number plays it again from the start; nothing is added to the history of the browser. */
  play(number) {
    if (this.shown) this.frame.contentWindow.location.replace(`${this.frame.src}#play=${number}`);
  }
}

function newest(page) {
  return page?.checkpoints?.[0]?.file ?? "";
}

/** "step_000000032000.ckpt" -> "32k frames" */
function frameText(file) {
  const found = /^step_(\d+)\.ckpt$/.exec(file);
  return found ? `${countText(Number(found[1]))} frames` : file;
}

function showTimes(times) {
  const whole = times.reduce((sum, [, seconds]) => sum + seconds, 0) || 1;
  const parts = times.map(([name, seconds], index) => {
    const part = made("span", "");
    part.style.flex = `${seconds / whole}`;
    part.style.setProperty("--tone", lineColour(index));
    part.title = name;
    return part;
  });
  element("shares").replaceChildren(...parts);
  const legend = times.map(([name, seconds], index) => marked(lineColour(index), `${name} ${numberText(seconds)} s, ${Math.round((100 * seconds) / whole)} %`));
  element("shares").nextElementSibling?.remove();
  element("shares").after(made("div", "shares-legend", ...legend));
}

/** Ask the server to do something, and return its sentence. */
async function post(path) {
  try {
    const answer = await fetch(path, { method: "POST" });
    return (await answer.text()).trim();
  } catch {
    return "the server does not answer";
  }
}
