// The data of the page: from a server that sends changes, or from the report itself.
"use strict";

class LiveSource {
  // changed(): something is new; connected(state): "live", "lost" or "refused".
  constructor(changed, connected) {
    this.live = true;
    this.secret = document.documentElement.dataset.secret || null; // there if runs may be changed
    this.paths = new Map(); // the path of x of each run that was selected
    this.state = null;
    this.details = new Map();
    this.seen = new Map(); // for each running run, when it had how many rounds
    this.wanted = new Set();
    this.busy = new Set();
    this.changed = changed;
    this.connected = connected;
    // Browsers allow few connections to one server: a hidden page closes its own.
    document.addEventListener("visibilitychange", () => (document.hidden ? this.close() : this.open()));
    this.open();
  }

  open() {
    this.close();
    this.stream = new EventSource("events");
    this.stream.addEventListener("runs", (event) => {
      this.connected("live");
      this.state = JSON.parse(event.data);
      this.forget();
      this.clock();
      this.refresh();
      this.changed();
    });
    this.stream.addEventListener("error", async () => {
      this.connected("lost");
      if (this.stream.readyState !== EventSource.CLOSED) return; // the browser tries again by itself
      const answer = await fetch("api/runs").catch(() => null);
      if (answer && answer.status === 401) this.connected("refused");
      else this.later = setTimeout(() => this.open(), 2000);
    });
  }

  close() {
    clearTimeout(this.later);
    if (this.stream) this.stream.close();
  }

  // Runs that are gone, or whose file has been replaced by another.
  forget() {
    const started = new Map(this.state.runs.map((run) => [run.key, run]));
    for (const [key, known] of this.details) {
      const run = started.get(key);
      if (!run || run.started !== known.started || run.rounds < known.history.round.length) this.details.delete(key);
    }
  }

  clock() {
    const at = performance.now() / 1000;
    for (const run of this.state.runs) {
      if (run.status !== "running") continue;
      const times = this.seen.get(run.key) || [];
      if (times.length && times.at(-1).rounds === run.rounds) continue;
      this.seen.set(run.key, [...times, { at, rounds: run.rounds }].slice(-12));
    }
  }

  // Seconds per round as seen from here, including the monitor and everything else between two rounds.
  pace(key) {
    const times = this.seen.get(key) || [];
    if (times.length < 3) return null;
    const [first, last] = [times[1], times.at(-1)]; // the first is when this page was opened
    return last.rounds > first.rounds ? (last.at - first.at) / (last.rounds - first.rounds) : null;
  }

  // The path of x of a run, as far as it is known here; it is requested every few seconds at most.
  path(run) {
    const known = this.paths.get(run.key);
    const fits = known && known.started === run.started;
    const due = !fits || (known.rounds !== run.rounds && performance.now() - known.at > 3000);
    if (due && !this.busy.has(`path ${run.key}`)) this.fetchPath(run);
    return fits ? known.path : null;
  }

  async fetchPath(run) {
    this.busy.add(`path ${run.key}`);
    try {
      const answer = await fetch(`api/path?key=${encodeURIComponent(run.key)}`);
      const path = answer.ok ? await answer.json() : null;
      this.paths.set(run.key, { path, rounds: run.rounds, started: run.started, at: performance.now() });
      this.changed();
    } catch {
      // the connection is lost; the stream notices too
    } finally {
      this.busy.delete(`path ${run.key}`);
    }
  }

  // Rename, tag or delete a run; what went wrong, or null.
  async change(run, what) {
    try {
      const answer = await fetch("api/change", {
        method: "POST",
        headers: { "content-type": "application/json", "x-fzoos-secret": this.secret },
        body: JSON.stringify({ key: run.key, started: run.started, ...what }),
      });
      return answer.ok ? null : (await answer.json()).error;
    } catch {
      return "The dashboard does not respond.";
    }
  }

  want(keys) {
    this.wanted = new Set(keys);
    this.refresh();
  }

  refresh() {
    if (!this.state) return;
    for (const run of this.state.runs) if (this.wanted.has(run.key) && this.stale(run)) this.fetch(run);
  }

  stale(run) {
    const known = this.details.get(run.key);
    return !known || known.rounds !== run.rounds || known.status !== run.status || known.queries !== run.queries;
  }

  // The new rounds of a running run; all rounds of one that has ended.
  async fetch({ key, status }) {
    if (this.busy.has(key)) return;
    this.busy.add(key);
    try {
      const known = this.details.get(key);
      const after = known && status === "running" ? known.history.round.at(-1) || 0 : 0;
      const answer = await fetch(`api/run?key=${encodeURIComponent(key)}&after=${after}`);
      if (!answer.ok) return;
      const fresh = await answer.json();
      if (this.details.get(key) !== known) return; // it was dropped meanwhile
      if (after) fresh.history = joined(known.history, fresh.history);
      this.details.set(key, fresh);
      this.changed();
    } catch {
      // the connection is lost; the stream notices too, and everything is requested again when it is back
    } finally {
      this.busy.delete(key);
    }
  }
}

class ReportSource {
  constructor(data) {
    this.live = false;
    this.secret = null;
    this.state = data;
    this.details = new Map(data.details.map((details) => [details.key, details]));
  }

  want() {}

  path(run) {
    return this.details.get(run.key).path;
  }

  pace() {
    return null;
  }
}

function joined(before, after) {
  const size = before.round.length;
  const whole = {};
  for (const name of Object.keys(before)) if (name !== "diagnostics") whole[name] = before[name].concat(after[name]);
  whole.diagnostics = {};
  for (const name of new Set([...Object.keys(before.diagnostics), ...Object.keys(after.diagnostics)])) {
    const old = before.diagnostics[name] || new Array(size).fill(null);
    const fresh = after.diagnostics[name] || new Array(after.round.length).fill(null);
    whole.diagnostics[name] = old.concat(fresh);
  }
  return whole;
}
