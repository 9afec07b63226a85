// The plots: which there are, and what is drawn in each.
"use strict";

const MANY_CLIENTS = 12; // more are drawn as a faint bundle

const DIAGNOSTICS = {
  violation: [
    "Largest constraint",
    "c",
    "The largest value of any client at the x with which a round began; the constraints hold where it is at most zero.",
  ],
  correction_length: ["Correction length", "γ", "Mean over clients and local steps."],
};

class Plots {
  // again(): the view has changed, draw again.
  constructor(node, view, again) {
    this.node = node;
    this.view = view;
    this.again = again;
    this.cards = new Map();
  }

  show(runs, focus, path) {
    const metric = this.metric(runs);
    this.convergence(runs, metric);
    const names = new Set();
    for (const run of runs)
      for (const [name, values] of Object.entries(run.history.diagnostics))
        if (values.some(Boolean)) names.add(name); // all zeros: nothing was corrected
    for (const name of [...names].sort()) this.diagnostic(name, runs);
    this.distances(focus);
    this.coordinates(focus, path);
    const last = ["distances", "coordinates"];
    for (const [id, card] of this.cards) {
      const wanted = id === "convergence" || last.includes(id) || names.has(id);
      if (!wanted) {
        card.node.remove();
        this.cards.delete(id);
      }
    }
    last.forEach((id, i) => {
      const { node } = this.cards.get(id);
      if (this.node.children[this.node.children.length - last.length + i] !== node) this.node.append(node);
    });
  }

  // F if one of the runs has a monitor; otherwise the length of the steps.
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
        "Quantity",
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
        id: "reference",
        oninput: () => {
          this.view.reference = card.below.value;
          this.again();
        },
      });
      card.below.value = this.view.reference;
      card.minus = html(
        "label",
        { class: "reference", title: "The value that is subtracted from F; if empty, the smallest value of F, if it is stored" },
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
    const typed = this.view.reference.trim().replace("−", "-");
    const stored = typed === "" && monitored.length > 0 && monitored.every((run) => run.minimum !== null);
    card.below.placeholder = stored ? "stored" : "0";
    const number = Number(typed) || 0;
    const drawn = metric === "monitor" ? monitored : runs;
    const lines = drawn.map((run) => {
      if (metric === "step") return this.series(run, run.history.step);
      const excess = stored ? aboveMinimum(run) : (value) => (value === null ? null : value - number);
      return this.series(run, fromStart(run).map(excess), true);
    });
    const series = this.view.grouped ? joinGroups(lines, drawn, this.view) : lines;
    const title = metric === "step" ? "step length" : stored || number ? "F − F*" : "F";
    const without = runs.length - drawn.length;
    const missing = `; ${without} ${without === 1 ? "run has" : "runs have"} no monitor`;
    const subject = stored ? "F minus its smallest value F*" : number ? `F minus ${format.number(number)}` : "F";
    const means = series.some((line) => line.low) ? " Bands show the standard error of the mean over seeds." : "";
    const about = `${subject} at x0 and after each round${without ? missing : ""}.${means}`;
    setText(card.about, metric === "step" ? `Distance that x moved in each round.${means}` : about);
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
    const [title, unit, about] = DIAGNOSTICS[name] || [name.replaceAll("_", " "), name, "A diagnostic of the algorithm."];
    const card = this.card(name, title);
    setText(card.about, about);
    const having = runs.filter((run) => (run.history.diagnostics[name] || []).some((value) => value !== null));
    const empty = !runs.length
      ? "Choose runs in the list"
      : !runs.some((run) => run.history.round.length)
        ? "No round is complete yet"
        : "None of these runs reports it";
    this.plot(card, {
      title,
      unit,
      series: this.joined(
        having.map((run) => this.series(run, run.history.diagnostics[name])),
        having,
      ),
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

  joined(lines, runs) {
    return this.view.grouped ? joinGroups(lines, runs, this.view) : lines;
  }

  // x of the selected run over the rounds.
  coordinates(run, path) {
    const title = "Coordinates of x";
    const card = this.card("coordinates", title);
    const names = (run && path && path.names) || [];
    const some = names.length && path.dim > names.length ? `; the ${names.length} of ${path.dim} that moved most` : "";
    setText(card.about, run ? `${run.name}: x at the start and after each round${some}.` : "");
    const at = new Map(run ? run.history.round.map((round, i) => [round, i]) : []);
    const place = (round) => (round === 0 ? 0 : run.history[this.view.against][at.get(round)]);
    const kept = names.length ? path.round.map((round) => round === 0 || at.has(round)) : [];
    const count = this.view.colours.length;
    const series = names.map((name, i) => ({
      id: `coordinate ${i}`,
      name,
      colour: `var(--c${i % count})`,
      dash: Math.floor(i / count),
      x: path.round.filter((_, k) => kept[k]).map(place),
      y: path.x[i].filter((_, k) => kept[k]),
    }));
    this.plot(card, { title, unit: "x", series, empty: run ? "No round is complete yet" : "Choose a run in the list" });
  }

  series(run, y, start = false) {
    const x = run.history[this.view.against];
    return {
      id: run.key,
      name: this.view.label(run.key),
      colour: this.view.colour(run.key),
      dash: this.view.dash(run.key),
      alive: run.status === "running",
      x: start && y.length > x.length ? [0, ...x] : x,
      y,
    };
  }

  plot(card, { title, unit, series, empty }) {
    const values = series.flatMap((one) => one.y).filter((value) => value !== null && Number.isFinite(value));
    const chosen = this.view.scales[card.id];
    const yLog = chosen ? chosen === "log" : suitsLog(values);
    choose(card.scale, yLog ? "log" : "linear");
    const fromZero = card.id !== "convergence" && card.id !== "coordinates";
    card.csv.disabled = card.png.disabled = !values.length;
    card.chart.show({
      id: card.id,
      heading: card.title,
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
    const file = (kind) => `fzoos-${id.replaceAll("_", "-")}-${this.view.against}.${kind}`;
    const saver = (kind, onclick) =>
      html("button", { type: "button", class: "small", "aria-label": `Save ${title} as ${kind}`, onclick }, kind);
    const png = saver("PNG", () => savePicture(card.chart, file("png")));
    const csv = saver("CSV", () => saveTable(plotRows(card.chart.plot), file("csv")));
    const controls = html("div", { class: "controls" }, scale, html("span", { class: "savers" }, png, csv));
    const host = html("div");
    const node = html(
      "section",
      { class: `card plot ${size}`, id: `plot-${id}` },
      html("div", { class: "card-head" }, html("div", {}, html("h2", {}, title), about), controls),
      host,
    );
    this.node.append(node);
    const card = { id, title, node, about, controls, scale, png, csv, chart: new Chart(host) };
    this.cards.set(id, card);
    return card;
  }

  highlight(id) {
    for (const card of this.cards.values()) card.chart.highlight(id);
  }
}

// F from x0 on, if it is known there.
function fromStart(run) {
  const { start } = run;
  return start === null || start === undefined ? run.history.monitor : [start, ...run.history.monitor];
}

// F - F*. What rounding cannot tell from F* is drawn as just above it: a log axis has no zero.
function aboveMinimum(run) {
  const size = Math.max(Math.abs(run.minimum), Math.abs(run.start ?? 0), Number.MIN_VALUE);
  const finest = Number.EPSILON * size;
  return (value) => {
    if (value === null) return null;
    const excess = value - run.minimum;
    return Math.abs(excess) < 16 * finest ? Math.max(excess, finest) : excess;
  };
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
