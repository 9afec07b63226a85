// The tables: comparison of runs, clients, failures, settings and the final point.
"use strict";

// The columns of the comparison: name and explanation.
const COLUMNS = [
  ["Run", "Name of the run"],
  ["Status", "How the run ended"],
  ["F", "F at the last x"],
  ["Lowest F", "Lowest F of all rounds"],
  ["F − F*", "Lowest F minus the smallest value of F, if it is known"],
  ["Rounds", "Complete rounds"],
  ["Queries", "Queries of all clients"],
  ["Bytes", "Bytes up and down"],
  ["Time", "Duration"],
];

class Tables {
  constructor(node, view, again) {
    this.view = view;
    this.again = again;
    this.parts = {};
    for (const id of ["comparison", "clients", "failures", "settings", "point"]) {
      this.parts[id] = html("section", { class: "card", id: `table-${id}` });
      node.append(this.parts[id]);
    }
    const title = html("h2", {}, "Settings");
    this.only = html("input", {
      type: "checkbox",
      onchange: () => {
        this.view.differences = this.only.checked;
        this.again();
      },
    });
    this.switch = html("label", { class: "switch" }, this.only, " Only differences");
    this.settingsBody = html("div");
    this.parts.settings.append(html("div", { class: "card-head" }, title, this.switch), this.settingsBody);
  }

  show(runs, focus) {
    this.comparison(runs);
    this.clients(focus);
    this.failures(runs);
    this.settings(runs);
    this.point(focus);
  }

  comparison(runs) {
    const node = this.parts.comparison;
    node.hidden = runs.length < 2;
    const rows = runs.map((run) => {
      const values = allowedValues(run.history);
      const best = values.length ? least(values) : null;
      return [
        run.key,
        this.view.label(run.key),
        run.status,
        run.monitor,
        best,
        best === null || run.minimum === null ? null : best - run.minimum,
        run.rounds,
        run.queries,
        run.bytes,
        run.seconds,
        this.view.colour(run.key),
      ];
    });
    const lowest = Math.min(...rows.map((row) => row[4] ?? Infinity));
    const { column, down } = this.view.sort;
    const at = COLUMNS.findIndex(([name]) => name === column);
    if (at >= 0) rows.sort((a, b) => (down ? -1 : 1) * inOrder(a[at + 1], b[at + 1]));
    rebuild(node, [rows, this.view.sort], () => [
      html(
        "div",
        { class: "card-head" },
        html("h2", {}, "Comparison"),
        html(
          "button",
          {
            type: "button",
            class: "small",
            "aria-label": "Save this table as CSV",
            onclick: () =>
              saveTable([COLUMNS.map(([name]) => name), ...rows.map((row) => row.slice(1, 10))], "fzoos-runs.csv"),
          },
          "CSV",
        ),
      ),
      this.sortable(
        rows.map(([, label, status, last, best, excess, rounds, queries, bytes, seconds, colour]) => [
          html("th", { scope: "row" }, html("i", { class: "swatch", "--colour": colour }), label),
          html("td", {}, pill(status)),
          html("td", { class: "right" }, format.number(last)),
          html("td", { class: `right${best === lowest ? " lowest" : ""}` }, format.number(best)),
          html("td", { class: "right" }, format.number(excess, 3)),
          ...[format.count(rounds), format.count(queries), format.bytes(bytes), format.seconds(seconds)].map((text) =>
            html("td", { class: "right" }, text),
          ),
        ]),
      ),
    ]);
    if (this.refocus) node.querySelector(`[data-column="${this.refocus}"]`).focus();
    this.refocus = null;
  }

  // A click on a heading sorts by it, another one the other way round.
  sortable(rows) {
    const { column, down } = this.view.sort;
    const view = table(
      COLUMNS.map(([name]) => name),
      rows,
      2,
    );
    view.querySelectorAll("thead th").forEach((head, i) => {
      const [name, words] = COLUMNS[i];
      const chosen = name === column;
      if (chosen) head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const sort = () => {
        this.view.sort = { column: name, down: chosen && !down };
        this.refocus = name; // its button is built again
        this.again();
      };
      const sign = chosen ? (down ? " ↓" : " ↑") : "";
      head.replaceChildren(
        html(
          "button",
          { type: "button", class: "sort", "data-column": name, title: words, onclick: sort },
          name + sign,
        ),
      );
    });
    return view;
  }

  clients(run) {
    const node = this.parts.clients;
    node.hidden = !run;
    if (!run) return;
    const rounds = run.history.distances;
    const most = Math.max(1, ...run.client_queries);
    const rows = run.clients.map((name, i) => {
      const seen = rounds.filter((row) => row[i] !== null && row[i] !== undefined);
      const failed = run.failures.filter(([, client]) => client === i).length;
      return [name, run.client_queries[i], seen.length ? seen.at(-1)[i] : null, seen.length, failed];
    });
    rebuild(node, [run.key, run.name, rows, rounds.length], () => [
      html(
        "div",
        { class: "card-head" },
        html(
          "div",
          {},
          html("h2", {}, "Clients"),
          html("p", { class: "about" }, `${run.name}: queries so far, and the last distance from the mean.`),
        ),
      ),
      table(
        ["Client", "Queries", "", "Distance", "Rounds", "Failures"],
        rows.map(([name, queries, distance, took, failed], i) => [
          html(
            "th",
            { scope: "row" },
            run.clients.length > MANY_CLIENTS
              ? null
              : html("i", { class: "swatch", "--colour": `var(--c${i % this.view.colours.length})` }),
            name,
          ),
          html(
            "td",
            { class: "wide" },
            html("span", { class: "bar", "--done": `${(100 * queries) / most}%` }, html("i")),
          ),
          html("td", { class: "right" }, format.count(queries)),
          html("td", { class: "right" }, format.number(distance, 3)),
          html("td", { class: "right" }, rounds.length ? `${took} of ${rounds.length}` : "–"),
          html("td", { class: `right${failed ? " bad" : ""}` }, failed ? format.count(failed) : "–"),
        ]),
        2,
      ),
    ]);
  }

  failures(runs) {
    const node = this.parts.failures;
    const rows = runs.flatMap((run) =>
      run.failures.map(([round, client, reason]) => [
        this.view.label(run.key),
        round,
        run.clients[client] ?? client,
        reason,
      ]),
    );
    const lost = runs
      .filter((run) => run.failed)
      .map((run) => [this.view.label(run.key), run.failed, lastLine(run.first_failure)]);
    rebuild(node, [rows, lost, runs.length], () => [
      html(
        "div",
        { class: "card-head" },
        html("h2", {}, "Failures", rows.length ? html("span", { class: "count" }, format.count(rows.length)) : null),
      ),
      ...lost.map(([name, count, first]) => {
        const many = `${format.count(count)} queries failed and were skipped`;
        const queries = count === 1 ? "1 query failed and was skipped" : many;
        return html("p", { class: "quiet lost" }, `${name}: ${queries}${first ? `; the first: ${first}` : "."}`);
      }),
      rows.length
        ? table(
            ["Run", "Round", "Client", "Reason"],
            rows
              .slice(-200)
              .reverse()
              .map(([run, round, client, reason]) => [
                html("th", { scope: "row" }, run),
                html("td", {}, String(round)),
                html("td", {}, String(client)),
                html("td", { class: "reason" }, reason),
              ]),
            4,
          )
        : html(
            "p",
            { class: "quiet" },
            runs.length ? "None: all clients have replied." : "Choose runs in the list.",
          ),
      rows.length > 200 ? html("p", { class: "quiet" }, "The last 200 are shown.") : null,
    ]);
  }

  settings(runs) {
    this.switch.hidden = runs.length < 2;
    this.only.checked = this.view.differences;
    const flat = runs.map((run) => new Map(flatten(run.settings)));
    const names = [...new Set(flat.flatMap((one) => [...one.keys()]))];
    const inner = (name) => name.includes(".");
    names.sort((a, b) => inner(a) - inner(b)); // what is nested comes last
    let rows = names.map((name) => {
      const values = flat.map((one) => (one.has(name) ? one.get(name) : "–"));
      return { name, values, differs: new Set(values).size > 1 };
    });
    if (this.view.differences && runs.length > 1) rows = rows.filter((row) => row.differs);
    const labels = runs.map((run) => [this.view.label(run.key), this.view.colour(run.key)]);
    rebuild(this.settingsBody, [labels, rows], () => {
      if (!rows.length)
        return [html("p", { class: "quiet" }, runs.length ? "The settings are the same." : "Choose runs in the list.")];
      const cells = rows.map(({ name, values, differs }) => [
        html(
          "th",
          { scope: "row", class: "setting" },
          name.split(/(?<=[._])/).flatMap((part) => [part, html("wbr")]),
        ),
        ...values.map((value) => html("td", { class: value === "–" ? "absent" : differs ? "differs" : "" }, value)),
      ]);
      const view = table(["Setting", ...labels.map(([label]) => label)], cells, 99);
      view.querySelectorAll("thead th").forEach((cell, i) => {
        if (i) cell.prepend(html("i", { class: "swatch", "--colour": labels[i - 1][1] }));
      });
      return [view];
    });
  }

  point(run) {
    const node = this.parts.point;
    node.hidden = !run;
    if (!run) return;
    rebuild(node, [run.key, run.x, run.variables], () => [
      vector(
        "Final point",
        `${run.name}: x of the last complete round, d = ${run.x.length}.`,
        run,
        run.x,
        run.variables,
      ),
    ]);
  }
}

// A point, with what it means where its variables have names, and a button that copies it.
function vector(title, about, run, x, variables) {
  const text = `[${x.join(", ")}]`;
  const copy = html(
    "button",
    {
      type: "button",
      class: "copy",
      "aria-label": `Copy ${title.toLowerCase()}`,
      onclick: async () => {
        await navigator.clipboard.writeText(text);
        setText(copy, "Copied");
        setTimeout(() => setText(copy, "Copy"), 1500);
      },
    },
    "Copy",
  );
  const named = (value, i) => (run.coordinates ? `${run.coordinates[i]} = ${value}` : value);
  const means = Object.entries(variables || {}).map(([name, value]) => `${name} = ${value}`);
  return html(
    "div",
    { class: "point" },
    html(
      "div",
      { class: "card-head" },
      html("div", {}, html("h2", {}, title), html("p", { class: "about" }, about)),
      navigator.clipboard ? copy : null,
    ),
    means.length ? html("p", { class: "means" }, means.join(", ")) : null,
    html(
      "p",
      { class: "vector", tabindex: "0", role: "group", "aria-label": title },
      x.map((value, i) => html("span", {}, named(format.number(value, 5), i))),
    ),
  );
}

// Texts by the alphabet, numbers by size, what is not known last.
function inOrder(a, b) {
  if (a === null || b === null) return (a === null) - (b === null);
  return typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a - b;
}

function lastLine(text) {
  return (text || "").trim().split("\n").at(-1);
}

// Columns from `right` on hold numbers.
function table(headings, rows, right) {
  const heads = headings.map((text, i) =>
    text ? html("th", { scope: "col", class: i >= right ? "right" : "" }, text) : html("td"),
  );
  return html(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": headings.filter(Boolean).join(", ") },
    html(
      "table",
      {},
      html("thead", {}, html("tr", {}, heads)),
      html(
        "tbody",
        {},
        rows.map((cells) => html("tr", {}, cells)),
      ),
    ),
  );
}

// Nested settings as dotted names and short texts.
function flatten(settings, before = "") {
  return Object.entries(settings || {}).flatMap(([name, value]) =>
    value !== null && typeof value === "object" && !Array.isArray(value)
      ? flatten(value, `${before}${name}.`)
      : [[before + name, shorten(value)]],
  );
}

function shorten(value) {
  if (Array.isArray(value)) {
    const first = JSON.stringify(value[0]);
    if (value.length > 3 && value.every((entry) => JSON.stringify(entry) === first))
      return `${value.length} × ${shorten(value[0])}`;
    if (value.length > 8) return `[${value.slice(0, 6).map(shorten).join(", ")}, … ${value.length} in all]`;
    return `[${value.map(shorten).join(", ")}]`;
  }
  if (value === null) return "not set";
  return typeof value === "number" ? format.minus(String(value)) : String(value);
}
