// The list of runs: which are drawn, and which one is in focus.
"use strict";

class RunList {
  // pick(key, on), open(key), pickAll(keys): what was asked for.
  constructor({ pick, open, pickAll }) {
    this.node = document.getElementById("list");
    this.count = document.getElementById("count");
    this.filter = document.getElementById("filter");
    this.rows = new Map();
    this.pick = pick;
    this.open = open;
    this.filter.addEventListener("input", () => this.sift());
    const shown = () => [...this.rows].filter(([, row]) => !row.item.hidden).map(([key]) => key);
    document.getElementById("all").addEventListener("click", () => pickAll(shown()));
    document.getElementById("none").addEventListener("click", () => pickAll([]));
    // On a small screen the list is closed, so that the plots are what one sees first.
    document.getElementById("drawer").open = !matchMedia("(max-width: 760px)").matches;
  }

  show(runs, view) {
    const running = runs.filter((run) => run.status === "running").length;
    setText(this.count, `${runs.length}${running ? `, ${running} running` : ""}`);
    const several = new Set(runs.map((run) => run.file)).size > 1;
    const keys = new Set(runs.map((run) => run.key));
    for (const [key, row] of this.rows) {
      if (keys.has(key)) continue;
      row.item.remove();
      this.rows.delete(key);
    }
    runs.forEach((run, place) => {
      if (!this.rows.has(run.key)) this.rows.set(run.key, this.row(run));
      const row = this.rows.get(run.key);
      if (this.node.children[place] !== row.item) this.node.insertBefore(row.item, this.node.children[place] || null);
      this.update(row, run, view, several);
    });
    this.sift();
  }

  row(run) {
    const box = html("input", { type: "checkbox", onchange: () => this.pick(run.key, box.checked) });
    const name = html("span", { class: "name" });
    const state = html("span", { class: "state" });
    const meta = html("span", { class: "meta" });
    const bar = html("span", { class: "bar" }, html("i"));
    const button = html(
      "button",
      { type: "button", class: "open", onclick: () => this.open(run.key) },
      html("span", { class: "line1" }, name, state),
      meta,
      bar,
    );
    return {
      item: html("li", { class: "run", "data-key": run.key }, box, button),
      box,
      name,
      state,
      meta,
      bar,
      button,
    };
  }

  update(row, run, view, several) {
    setText(row.name, run.name);
    row.box.setAttribute("aria-label", `Draw ${run.name}, run ${run.id}`);
    row.box.checked = view.selected.has(run.key);
    row.item.style.setProperty("--colour", view.colour(run.key));
    row.item.classList.toggle("picked", row.box.checked);
    if (view.focus === run.key) row.button.setAttribute("aria-current", "true");
    else row.button.removeAttribute("aria-current");
    rebuild(row.state, run.status, () => [pill(run.status)]);
    const parts = [
      run.monitor === null ? null : `F ${format.number(run.monitor, 3)}`,
      run.total && run.rounds !== run.total ? `${run.rounds} of ${run.total} rounds` : `${run.rounds} rounds`,
      several ? run.file : format.briefly(run.started),
    ];
    setText(row.meta, parts.filter(Boolean).join(" · "));
    row.bar.hidden = run.status !== "running" || !run.total;
    row.bar.style.setProperty("--done", `${run.total ? (100 * run.rounds) / run.total : 0}%`);
    row.words = `${run.name} ${run.algorithm || ""} ${run.status} ${run.file}:${run.id}`.toLowerCase();
  }

  sift() {
    const words = this.filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of this.rows.values()) row.item.hidden = !words.every((word) => row.words.includes(word));
  }
}
