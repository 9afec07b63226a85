// Puts the page together: the state of the view (`view`), the data (`source`) and the drawing.
"use strict";

const DRAWN_AT_FIRST = 8; // lines: the newest of one task, each with all of its seeds

const view = {
  selected: new Set(),
  focus: null,
  touched: false, // whether the viewer has selected runs; until then new runs are drawn as they come
  against: "round",
  across: "linear",
  metric: "monitor",
  reference: "",
  scales: {},
  lines: "", // "runs" or "groups"; by default groups where there are several seeds
  grouped: false,
  differences: false,
  sort: { column: "", down: false },
  colours: [],
  slots: new Map(), // the colour of each line, which stays the same as others come and go
  owner: new Map(), // the line that each run belongs to: its own or its group's
  labels: new Map(),
  groupLabels: new Map(),

  slot(run) {
    const key = this.owner.get(run) || run;
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
  groupLabel(id) {
    return this.groupLabels.get(id) || id;
  },
};

const data = document.getElementById("data");
const layout = document.getElementById("layout");
const source = data ? new ReportSource(JSON.parse(data.textContent)) : new LiveSource(soon, connected);
const list = new RunList({ pick, open: focusOn, pickAll, pickTask, again: soon });
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

// The viewer has changed the view.
function changed() {
  remember();
  soon();
}

function pick(key, on) {
  view.touched = true;
  if (on) view.selected.add(key);
  else view.selected.delete(key);
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
  view.selected = new Set(keys);
  changed();
}

// The runs of one task; its newest is in focus.
function pickTask(problem) {
  const runs = source.state.runs.filter((run) => run.problem === problem);
  view.focus = runs.length ? runs[0].key : view.focus;
  pickAll(ofOneTask(runs));
}

// The newest lines of the newest run's task: each run with those that differ in their seed only.
function ofOneTask(runs) {
  const same = runs.filter((run) => run.problem === runs[0].problem);
  const groups = new Set();
  for (const run of same) if (groups.size < DRAWN_AT_FIRST) groups.add(run.group);
  const found = same.filter((run) => groups.has(run.group)).slice(0, MOST_DRAWN);
  return found.map((run) => run.key).reverse(); // the oldest has the first colour
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
    source,
  );
  const ready = focus ? full(focus.key) : null;
  plots.show(drawn, ready, ready ? source.path(focus) : null);
  tables.show(drawn, focus ? full(focus.key) : null);
  document.title = focus
    ? `${focus.status === "running" && focus.total ? `${focus.rounds}/${focus.total} ` : ""}${focus.name} · fzoos`
    : "fzoos";
}

// Which runs are drawn and which is selected by default, or if the selected ones are gone.
function settle(runs) {
  const keys = new Set(runs.map((run) => run.key));
  for (const key of view.selected) if (!keys.has(key)) view.selected.delete(key);
  if (!view.touched && runs.length) {
    view.selected = new Set(source.live ? ofOneTask(runs) : [...keys]);
    view.focus = runs[0].key;
  }
  if (!keys.has(view.focus)) view.focus = [...view.selected].at(-1) || (runs.length ? runs[0].key : null);
  const drawn = runs.filter((run) => view.selected.has(run.key));
  group(drawn);
  view.labels = labels(runs, new Set(drawn.map((run) => run.name)));
  const lines = new Set([...view.selected].map((key) => view.owner.get(key)));
  for (const id of view.slots.keys()) if (!lines.has(id)) view.slots.delete(id);
  for (const key of view.selected) view.slot(key);
}

// Which runs are one line.
function group(drawn) {
  const seeds = new Map();
  for (const run of drawn) seeds.set(run.group, (seeds.get(run.group) || 0) + 1);
  const several = [...seeds.values()].some((count) => count > 1);
  view.grouped = several && view.lines !== "runs";
  view.owner = new Map(drawn.map((run) => [run.key, view.grouped ? `group ${run.group}` : run.key]));
  view.groupLabels = groupLabels(drawn, source.details, view.owner);
  const node = document.getElementById("lines");
  node.hidden = !several;
  choose(node, view.grouped ? "groups" : "runs");
}

// No two runs have the same text: where names are the same, the seed or the number says which it is.
function labels(runs, wanted) {
  const names = new Map([...wanted].map((name) => [name, []]));
  for (const run of runs) if (names.has(run.name)) names.get(run.name).push(run);
  const files = new Set(runs.map((run) => run.file)).size > 1;
  const found = new Map();
  for (const [name, same] of names) {
    const seeds = new Set(same.map((run) => run.seed));
    for (const run of same) {
      const number = files ? `${run.file}, run ${run.id}` : `run ${run.id}`;
      const apart = seeds.size === same.length && !seeds.has(null) ? `seed ${run.seed}` : number;
      found.set(run.key, same.length > 1 ? `${name} (${apart})` : name);
    }
  }
  return found;
}

function useColours(colours) {
  view.colours = colours;
  colours.forEach((colour, i) => {
    // On a dark ground the same hues, lighter; black becomes the colour of the text.
    const lighter = `color-mix(in oklab, ${colour}, white ${lift(colour)}%)`;
    const value = colour === "#000000" ? "var(--ink)" : `light-dark(${colour}, ${lighter})`;
    document.documentElement.style.setProperty(`--c${i}`, value);
  });
}

// How much white a colour needs to be seen on a dark ground.
function lift(colour) {
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16) / 255);
  return 0.3 * red + 0.59 * green + 0.11 * blue < 0.3 ? 50 : 28;
}

function notice(problems) {
  rebuild(document.getElementById("notices"), problems, () => problems.map((text) => html("p", {}, text)));
}

function connected(state) {
  const node = document.getElementById("live");
  const texts = {
    live: "Live",
    lost: "Disconnected, reconnecting",
    refused: "Token required: open the address that fzoos dashboard printed",
  };
  node.className = `live ${state}`;
  setText(node, texts[state]);
}

// The view is part of the address: it survives a reload and can be shared.
function remember() {
  const parts = new URLSearchParams();
  if (view.touched) parts.set("runs", [...view.selected].join("|"));
  if (view.touched && view.focus) parts.set("focus", view.focus);
  for (const name of ["against", "across", "metric", "reference", "lines"]) if (view[name]) parts.set(name, view[name]);
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
  among("lines", ["runs", "groups"]);
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
  document.getElementById("lines").addEventListener("change", (event) => {
    view.lines = event.target.value;
    changed();
  });
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
