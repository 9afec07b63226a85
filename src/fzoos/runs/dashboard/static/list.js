// The list of runs: which are drawn and which one is selected. If there are very many, the page has the first ones.
"use strict";

const AT_ONCE = 150; // rows on the page; a button adds as many
const MOST_DRAWN = 60; // runs that "All" draws

const ORDERS = {
  newest: (a, b) => b.started - a.started || b.id - a.id,
  oldest: (a, b) => a.started - b.started || a.id - b.id,
  name: (a, b) => a.name.localeCompare(b.name, "en", { numeric: true }) || a.id - b.id,
  value: (a, b) => (a.monitor ?? Infinity) - (b.monitor ?? Infinity) || a.id - b.id,
  queries: (a, b) => a.queries - b.queries || a.id - b.id,
  seconds: (a, b) => b.seconds - a.seconds || a.id - b.id,
};

class RunList {
  // pick(key, on), open(key), pickAll(keys), pickTask(problem): what the viewer requests; again(): draw again.
  constructor({ pick, open, pickAll, pickTask, again }) {
    this.node = document.getElementById("list");
    this.count = document.getElementById("count");
    this.filter = document.getElementById("filter");
    this.order = document.getElementById("order");
    this.task = document.getElementById("task");
    this.more = document.getElementById("more");
    this.rows = new Map();
    this.limit = AT_ONCE;
    this.found = [];
    this.pick = pick;
    this.open = open;
    const anew = () => {
      this.limit = AT_ONCE;
      again();
    };
    this.filter.addEventListener("input", anew);
    this.order.addEventListener("change", anew);
    this.task.addEventListener("change", () => {
      this.limit = AT_ONCE;
      if (this.task.value) pickTask(this.task.value);
      else again();
    });
    this.more.addEventListener("click", () => {
      this.limit += AT_ONCE;
      again();
    });
    const first = () => this.found.slice(0, MOST_DRAWN).map((run) => run.key);
    document.getElementById("all").addEventListener("click", () => pickAll(first()));
    document.getElementById("none").addEventListener("click", () => pickAll([]));
    // On a small screen the list is closed, so that the plots are what one sees first.
    document.getElementById("drawer").open = !matchMedia("(max-width: 760px)").matches;
  }

  show(runs, view) {
    const running = runs.filter((run) => run.status === "running").length;
    this.tasks(runs);
    const words = this.filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const task = this.task.value;
    this.found = runs.filter((run) => (!task || run.problem === task) && fitsWords(run, words));
    if (this.order.value !== "newest" || !this.sorted(runs)) this.found.sort(ORDERS[this.order.value]);
    const some = this.found.length < runs.length ? `${format.count(this.found.length)} of ` : "";
    setText(this.count, `${some}${format.count(runs.length)}${running ? `, ${running} running` : ""}`);
    const shown = this.found.slice(0, this.limit);
    const left = this.found.length - shown.length;
    this.more.hidden = !left;
    setText(this.more, `Show more (${format.count(left)})`);
    const several = new Set(runs.map((run) => run.file)).size > 1;
    const keys = new Set(shown.map((run) => run.key));
    for (const [key, row] of this.rows) {
      if (keys.has(key)) continue;
      row.item.remove();
      this.rows.delete(key);
    }
    shown.forEach((run, place) => {
      if (!this.rows.has(run.key)) this.rows.set(run.key, this.row(run));
      const row = this.rows.get(run.key);
      if (this.node.children[place] !== row.item) this.node.insertBefore(row.item, this.node.children[place] || null);
      this.update(row, run, view, several);
    });
  }

  sorted(runs) {
    return runs.every((run, i) => !i || ORDERS.newest(runs[i - 1], run) <= 0);
  }

  // The tasks that there are, the one of the newest run first.
  tasks(runs) {
    const names = new Map();
    for (const run of runs) {
      const known = names.get(run.problem) || { name: run.task || `as ${run.name}`, count: 0 };
      names.set(run.problem, { ...known, count: known.count + 1 });
    }
    this.task.parentNode.hidden = names.size < 2;
    const before = this.task.value;
    rebuild(this.task, [...names], () => [
      html("option", { value: "" }, "All tasks"),
      ...[...names].map(([problem, { name, count }]) =>
        html("option", { value: problem }, `${name} (${format.count(count)})`),
      ),
    ]);
    if (names.has(before)) this.task.value = before;
  }

  row(run) {
    const box = html("input", { type: "checkbox", onchange: () => this.pick(run.key, box.checked) });
    const name = html("span", { class: "name" });
    const state = html("span", { class: "state" });
    const meta = html("span", { class: "meta" });
    const tags = html("span", { class: "tags" });
    const bar = html("span", { class: "bar" }, html("i"));
    const button = html(
      "button",
      { type: "button", class: "open", onclick: () => this.open(run.key) },
      name,
      html("span", { class: "line2" }, state, meta),
      tags,
      bar,
    );
    const item = html("li", { class: "run", "data-key": run.key }, box, button);
    return { item, box, name, state, meta, tags, bar, button };
  }

  update(row, run, view, several) {
    const picked = view.selected.has(run.key);
    const shown = JSON.stringify([run, picked, view.colour(run.key), view.focus === run.key, several]);
    if (row.shown === shown) return; // of many rows few change
    row.shown = shown;
    setText(row.name, run.name);
    row.box.setAttribute("aria-label", `Draw ${run.name}, run ${run.id}`);
    row.box.checked = picked;
    row.item.style.setProperty("--colour", view.colour(run.key));
    row.item.classList.toggle("picked", row.box.checked);
    if (view.focus === run.key) row.button.setAttribute("aria-current", "true");
    else row.button.removeAttribute("aria-current");
    rebuild(row.state, run.status, () => [pill(run.status)]);
    const parts = [
      run.monitor === null ? null : `F ${format.number(run.monitor, 3)}`,
      run.feasible === null ? null : run.feasible ? "feasible" : "not feasible",
      run.total && run.rounds !== run.total ? `${run.rounds} of ${run.total} rounds` : `${run.rounds} rounds`,
      run.seed === null ? null : `seed ${run.seed}`,
      several ? `${run.file}:${run.id}` : `run ${run.id}`,
      format.briefly(run.started),
    ];
    const whole = (part) => part.replaceAll(" ", "\u00a0"); // lines end between the parts
    setText(row.meta, parts.filter(Boolean).map(whole).join(" · "));
    row.tags.hidden = !run.tags.length;
    rebuild(row.tags, run.tags, () => run.tags.map(chip));
    row.bar.hidden = run.status !== "running" || !run.total;
    row.bar.style.setProperty("--done", `${run.total ? (100 * run.rounds) / run.total : 0}%`);
  }
}

function fitsWords(run, words) {
  if (!words.length) return true;
  const texts = [run.name, run.algorithm || "", run.status, run.task, `${run.file}:${run.id}`, ...run.tags];
  const text = texts.join(" ").toLowerCase();
  return words.every((word) => text.includes(word));
}
