// Puts the page together: what is looked at (`view`), where it comes from (`source`), and drawing it.
"use strict";

const DRAWN_AT_FIRST = 5; // runs, the newest

const view = {
  selected: new Set(),
  focus: null,
  touched: false, // whether the reader has chosen; until then new runs are drawn as they come
  against: "round",
  across: "linear",
  metric: "monitor",
  reference: "",
  scales: {},
  differences: false,
  colours: [],
  slots: new Map(), // of each run drawn, which colour; it keeps it as others come and go
  labels: new Map(),

  slot(key) {
    if (!this.slots.has(key)) {
      const taken = new Set(this.slots.values());
      let free = 0;
      while (taken.has(free)) free++;
      this.slots.set(key, free);
    }
    return this.slots.get(key);
  },
  colour(key) {
    return this.selected.has(key) ? `var(--c${this.slot(key) % this.colours.length})` : "var(--line)";
  },
  dash(key) {
    return Math.floor(this.slot(key) / this.colours.length);
  },
  label(key) {
    return this.labels.get(key) || key;
  },
};

const data = document.getElementById("data");
const layout = document.getElementById("layout");
const source = data ? new ReportSource(JSON.parse(data.textContent)) : new LiveSource(soon, connected);
const list = new RunList({ pick, open: focusOn, pickAll });
const plots = new Plots(document.getElementById("plots"), view, changed);
const tables = new Tables(document.getElementById("tables"), view, changed);

let due = false;

function soon() {
  if (due) return;
  due = true;
  requestAnimationFrame(() => {
    due = false;
    draw();
  });
}

// The reader has changed what is looked at.
function changed() {
  remember();
  soon();
}

function pick(key, on) {
  view.touched = true;
  if (on) view.selected.add(key);
  else {
    view.selected.delete(key);
    view.slots.delete(key);
  }
  changed();
}

function focusOn(key) {
  view.touched = true;
  view.focus = key;
  view.selected.add(key);
  changed();
}

function pickAll(keys) {
  view.touched = true;
  for (const key of view.slots.keys()) if (!keys.includes(key)) view.slots.delete(key);
  view.selected = new Set(keys);
  changed();
}

function draw() {
  if (!source.state) return;
  const { runs, problems, path, colours } = source.state;
  if (!view.colours.length) useColours(colours);
  settle(runs);
  source.want([...view.selected, view.focus].filter(Boolean));
  setText(document.getElementById("source"), path);
  notice(problems);
  document.getElementById("empty").hidden = runs.length > 0;
  layout.hidden = !runs.length;
  const byKey = new Map(runs.map((run) => [run.key, run]));
  const focus = byKey.get(view.focus);
  // The summary may be newer than the rounds that have come so far.
  const full = (key) =>
    source.details.has(key) && byKey.has(key) ? { ...source.details.get(key), ...byKey.get(key) } : null;
  const drawn = [...view.selected]
    .sort((a, b) => view.slot(a) - view.slot(b))
    .map(full)
    .filter(Boolean);
  list.show(runs, view);
  showHead(
    document.getElementById("head"),
    focus,
    focus ? full(focus.key) : null,
    focus ? source.pace(focus.key) : null,
  );
  plots.show(drawn, focus ? full(focus.key) : null);
  tables.show(drawn, focus ? full(focus.key) : null);
  document.title = focus
    ? `${focus.status === "running" && focus.total ? `${focus.rounds}/${focus.total} ` : ""}${focus.name} · fzoos`
    : "fzoos";
}

// Which runs are drawn, and which is in focus, when the reader has not said or what was said is gone.
function settle(runs) {
  const keys = runs.map((run) => run.key);
  for (const key of view.selected) {
    if (keys.includes(key)) continue;
    view.selected.delete(key);
    view.slots.delete(key);
  }
  if (!view.touched) {
    const first = source.live ? keys.slice(0, DRAWN_AT_FIRST).reverse() : keys; // the oldest has the first colour
    for (const key of first) view.selected.add(key);
    view.focus = keys[0] || null;
  }
  if (!keys.includes(view.focus)) view.focus = [...view.selected].at(-1) || keys[0] || null;
  const names = new Map();
  for (const run of runs) names.set(run.name, (names.get(run.name) || 0) + 1);
  const files = new Set(runs.map((run) => run.file)).size > 1;
  view.labels = new Map(
    runs.map((run) => [
      run.key,
      names.get(run.name) > 1 ? `${run.name} (${files ? `${run.file}, ` : ""}run ${run.id})` : run.name,
    ]),
  );
  for (const key of view.selected) view.slot(key);
}

function useColours(colours) {
  view.colours = colours;
  colours.forEach((colour, i) => {
    // On a dark ground the same hues, lighter; black becomes the colour of the text.
    const value =
      colour === "#000000" ? "var(--ink)" : `light-dark(${colour}, color-mix(in oklab, ${colour}, white 28%))`;
    document.documentElement.style.setProperty(`--c${i}`, value);
  });
}

function notice(problems) {
  rebuild(document.getElementById("notices"), problems, () => problems.map((text) => html("p", {}, text)));
}

function connected(state) {
  const node = document.getElementById("live");
  const texts = {
    live: "Live",
    lost: "Not connected, trying again",
    refused: "Needs the token: open the address that fzoos dashboard printed",
  };
  node.className = `live ${state}`;
  setText(node, texts[state]);
}

// What is looked at stays in the address: it survives a reload and can be sent to someone.
function remember() {
  const parts = new URLSearchParams();
  if (view.touched) parts.set("runs", [...view.selected].join("|"));
  if (view.touched && view.focus) parts.set("focus", view.focus);
  for (const name of ["against", "across", "metric", "reference"]) if (view[name]) parts.set(name, view[name]);
  for (const [id, scale] of Object.entries(view.scales)) parts.set(`scale-${id}`, scale);
  history.replaceState(null, "", `#${parts}`);
}

function recall() {
  const parts = new URLSearchParams(location.hash.slice(1));
  if (parts.has("runs")) {
    view.touched = true;
    view.selected = new Set(parts.get("runs").split("|").filter(Boolean));
    view.focus = parts.get("focus");
  }
  const among = (name, values) => {
    if (values.includes(parts.get(name))) view[name] = parts.get(name);
  };
  among("against", Object.keys(KINDS));
  among("across", ["linear", "log"]);
  among("metric", ["monitor", "step"]);
  view.reference = parts.get("reference") || "";
  for (const [name, value] of parts)
    if (name.startsWith("scale-") && ["linear", "log"].includes(value)) view.scales[name.slice(6)] = value;
}

function begin() {
  recall();
  for (const name of ["against", "across"]) {
    const group = document.getElementById(name);
    choose(group, view[name]);
    group.addEventListener("change", (event) => {
      view[name] = event.target.value;
      changed();
    });
  }
  const switcher = document.getElementById("theme");
  choose(switcher, theme.get());
  switcher.addEventListener("change", (event) => {
    theme.set(event.target.value);
    soon();
  });
  document.getElementById("snippet").textContent =
    'from fzoos import minimize\nminimize(objectives, x0, bounds=(-1, 1), store="runs.db")';
  if (!source.live) {
    document.body.classList.add("report");
    setText(document.getElementById("foot"), source.state.made);
    setText(document.getElementById("live"), "");
  }
  soon();
}

begin();
