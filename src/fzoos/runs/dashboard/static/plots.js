// The plots: which there are, and what is drawn in each.
"use strict";

const MANY_CLIENTS = 12; // more are drawn as a faint bundle

const DIAGNOSTICS = {
  correction_length: ["Correction length", "γ", "Mean over clients and local steps."],
  uncertainty: ["Surrogate uncertainty", "posterior / prior variance", "Of the gradient; 1: nothing is known."],
};

class Plots {
  // again(): the view has changed, draw anew.
  constructor(node, view, again) {
    this.node = node;
    this.view = view;
    this.again = again;
    this.cards = new Map();
  }

  show(runs, focus) {
    const metric = this.metric(runs);
    this.convergence(runs, metric);
    const names = new Set(["correction_length", "uncertainty"]);
    for (const run of runs) for (const name of Object.keys(run.history.diagnostics)) names.add(name);
    for (const name of names) this.diagnostic(name, runs);
    this.distances(focus);
    for (const [id, card] of this.cards) {
      const wanted = id === "convergence" || id === "distances" || names.has(id);
      if (!wanted) {
        card.node.remove();
        this.cards.delete(id);
      }
    }
    this.node.append(this.cards.get("distances").node); // always the last
  }

  // F where a run among those drawn has a monitor; otherwise the length of the steps.
  metric(runs) {
    const has = runs.some((run) => run.history.monitor.some((value) => value !== null));
    if (this.view.metric === "step") return "step";
    return has ? "monitor" : "step";
  }

  convergence(runs, metric) {
    const card = this.card("convergence", "Convergence", "wide");
    if (!card.metric) {
      card.metric = segments(
        "metric",
        "What is drawn",
        [
          ["monitor", "F"],
          ["step", "Step"],
        ],
        (value) => {
          this.view.metric = value;
          this.again();
        },
      );
      card.below = html("input", {
        type: "text",
        inputmode: "decimal",
        size: "7",
        placeholder: "0",
        id: "reference",
        oninput: () => {
          this.view.reference = card.below.value;
          this.again();
        },
      });
      card.below.value = this.view.reference;
      card.minus = html(
        "label",
        { class: "reference", title: "A value that is subtracted from F, such as its smallest" },
        "F* ",
        card.below,
      );
      card.controls.prepend(card.minus, card.metric);
      card.legend = html("ul", { class: "legend", "aria-label": "Lines" });
      card.node.append(card.legend);
    }
    const monitored = runs.filter((run) => run.history.monitor.some((value) => value !== null));
    card.metric.querySelector("[value=monitor]").disabled = !monitored.length;
    choose(card.metric, metric);
    card.minus.hidden = metric !== "monitor";
    const reference = metric === "monitor" ? Number(this.view.reference.replace("−", "-")) || 0 : 0;
    const drawn = metric === "monitor" ? monitored : runs;
    const series = drawn.map((run) =>
      this.series(
        run,
        run.history[metric].map((value) => (value === null ? null : value - reference)),
      ),
    );
    const title = metric === "step" ? "step length" : reference ? "F − F*" : "F";
    const without = runs.length - drawn.length;
    const missing = `; ${without} ${without === 1 ? "run has" : "runs have"} no monitor`;
    const subject = reference ? `F less ${format.number(reference)}` : "F";
    const about = `${subject} at x after each round${without ? missing : ""}.`;
    setText(card.about, metric === "step" ? "How far x moved in each round." : about);
    this.plot(card, {
      title,
      unit: title,
      series,
      empty: runs.length ? "No round is complete yet" : "Choose runs in the list",
    });
    rebuild(
      card.legend,
      series.map((one) => [one.id, one.name, one.colour, one.dash]),
      () =>
        series.map((one) =>
          html(
            "li",
            { onpointerenter: () => this.highlight(one.id), onpointerleave: () => this.highlight(null) },
            svg(
              "svg",
              { width: 22, height: 8, "aria-hidden": "true", "--colour": one.colour },
              svg("path", { d: "M1 4h20", "stroke-dasharray": DASHES[one.dash % DASHES.length] }),
            ),
            one.name,
          ),
        ),
    );
  }

  diagnostic(name, runs) {
    const [title, unit, about] = DIAGNOSTICS[name] || [name.replaceAll("_", " "), name, "As the algorithm reports it."];
    const card = this.card(name, title);
    setText(card.about, about);
    const having = runs.filter((run) => (run.history.diagnostics[name] || []).some((value) => value !== null));
    const empty = !runs.length
      ? "Choose runs in the list"
      : !runs.some((run) => run.history.round.length)
        ? "No round is complete yet"
        : name === "uncertainty"
          ? "No run here has a surrogate"
          : "No run here reports it";
    this.plot(card, {
      title,
      unit,
      series: having.map((run) => this.series(run, run.history.diagnostics[name])),
      empty,
    });
  }

  distances(run) {
    const title = "Distance from the mean";
    const card = this.card("distances", title);
    setText(card.about, run ? `${run.name}: each client’s x.` : "");
    const clients = run ? run.clients : [];
    const faint = clients.length > MANY_CLIENTS;
    const count = this.view.colours.length;
    const series = clients.map((name, i) => ({
      id: `client ${i}`,
      name,
      colour: faint ? "var(--c0)" : `var(--c${i % count})`,
      dash: faint ? 0 : Math.floor(i / count),
      faint,
      x: run.history[this.view.against],
      y: run.history.distances.map((row) => row[i] ?? null),
    }));
    this.plot(card, {
      title,
      unit: "distance in the unit cube",
      series,
      empty: run ? "No distances yet" : "Choose a run in the list",
    });
  }

  series(run, y) {
    return {
      id: run.key,
      name: this.view.label(run.key),
      colour: this.view.colour(run.key),
      dash: this.view.dash(run.key),
      alive: run.status === "running",
      x: run.history[this.view.against],
      y,
    };
  }

  plot(card, { title, unit, series, empty }) {
    const values = series.flatMap((one) => one.y).filter((value) => value !== null && Number.isFinite(value));
    const chosen = this.view.scales[card.id];
    const yLog = chosen ? chosen === "log" : suitsLog(values);
    choose(card.scale, yLog ? "log" : "linear");
    const fromZero = card.id !== "convergence";
    card.chart.show({
      title,
      unit,
      series,
      empty,
      yLog,
      fromZero,
      kind: this.view.against,
      xLog: this.view.across === "log",
    });
  }

  card(id, title, size = "") {
    if (this.cards.has(id)) return this.cards.get(id);
    const about = html("p", { class: "about" });
    const scale = segments(
      `scale-${id}`,
      `Scale of ${title}`,
      [
        ["linear", "Linear"],
        ["log", "Log"],
      ],
      (value) => {
        this.view.scales[id] = value;
        this.again();
      },
    );
    const controls = html("div", { class: "controls" }, scale);
    const host = html("div");
    const node = html(
      "section",
      { class: `card plot ${size}`, id: `plot-${id}` },
      html("div", { class: "card-head" }, html("div", {}, html("h2", {}, title), about), controls),
      host,
    );
    this.node.append(node);
    const card = { id, node, about, controls, scale, chart: new Chart(host) };
    this.cards.set(id, card);
    return card;
  }

  highlight(id) {
    for (const card of this.cards.values()) card.chart.highlight(id);
  }
}

// Values of very different size, all above zero.
function suitsLog(values) {
  let low = Infinity;
  let high = 0;
  for (const value of values) {
    if (value <= 0) return false;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  return high / low > 20;
}
