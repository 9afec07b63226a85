// The selected run: its settings, its result and its costs.
"use strict";

function showHead(node, run, details, pace, source) {
  const history = details ? details.history : null;
  const shown = run && [
    run,
    pace && pace.toPrecision(2),
    details && [details.message, details.bytes_up, details.extra, details.feasibility],
    history && history.step.length,
  ];
  rebuild(node, shown || null, () => {
    if (!run) return [];
    const message = details ? details.message : "";
    const facts = [
      run.algorithm === run.name ? null : run.algorithm,
      run.task && !run.name.includes(run.task) ? run.task : null,
      run.seed === null ? null : `seed ${run.seed}`,
      `${run.file}, run ${run.id}`,
      `started ${format.when(run.started)}`,
      message,
    ];
    const tags = run.tags.length ? html("span", { class: "tags" }, run.tags.map(chip)) : null;
    const title = html(
      "div",
      { class: "title" },
      html("h1", {}, run.name),
      pill(run.status),
      tags,
      editButtons(run, source),
    );
    const line = html("p", { class: "facts" }, facts.filter(Boolean).join(" · "));
    return [html("div", {}, title, line), html("dl", { class: "tiles" }, tiles(run, details, pace))];
  });
}

function tiles(run, details, pace) {
  const values = details ? allowedValues(details.history) : [];
  const steps = details ? details.history.step : [];
  const found = [];
  if (values.length || run.monitor !== null) {
    const best = values.length ? least(values) : run.monitor;
    const lowest = best < run.monitor ? `lowest ${format.number(best)}` : null;
    const words = [lowest || (values.length > 1 ? "the lowest so far" : null)];
    if (run.minimum !== null) words.push(`F − F* ${format.number(run.monitor - run.minimum, 3)}`);
    found.push(tile("F", format.number(run.monitor), words.filter(Boolean).join("\n")));
  } else {
    found.push(tile("Last step", steps.length ? format.number(steps.at(-1)) : "–", "F is not known: no monitor"));
  }
  const rounds = tile("Rounds", format.count(run.rounds), run.total ? `of ${format.count(run.total)}` : "");
  if (run.total)
    rounds.append(
      html("span", { class: "bar", "--done": `${Math.min(100, (100 * run.rounds) / run.total)}%` }, html("i")),
    );
  found.push(rounds);
  const clients = details ? details.clients.length : 0;
  const of = clients ? `${clients} ${clients === 1 ? "client" : "clients"}` : "";
  const failed = details && details.failed ? `, ${format.count(details.failed)} failed` : "";
  found.push(tile("Queries", format.count(run.queries), of + failed));
  found.push(
    tile(
      "Bytes",
      format.bytes(run.bytes),
      details ? `↑ ${format.bytes(details.bytes_up)}  ↓ ${format.bytes(details.bytes_down)}` : "",
    ),
  );
  found.push(tile("Time", format.seconds(run.seconds), left(run, details, pace)));
  if (run.feasible !== null || (details && details.feasibility)) {
    const words = { true: "yes", false: "no", null: "not known" }[run.feasible];
    found.push(tile("Feasible", words, details ? details.feasibility.replace(/^(yes, |no; )/, "") : ""));
  }
  if (details && details.extra && details.extra.epsilon !== undefined) {
    found.push(
      tile("Privacy ε", format.number(details.extra.epsilon, 3), `at δ = ${format.number(details.extra.delta, 3)}`),
    );
  }
  return found;
}

function tile(name, value, more) {
  return html(
    "div",
    { class: "tile" },
    html("dt", {}, name),
    html("dd", { class: "value" }, value),
    more ? html("dd", { class: "more" }, more) : null,
  );
}

// The time that is left, at the pace of the last rounds.
function left(run, details, pace) {
  if (run.status !== "running" || !run.total || !details || details.history.seconds.length < 2) return "";
  const times = details.history.seconds;
  const back = Math.min(10, times.length - 1);
  const each = pace || (times.at(-1) - times.at(-1 - back)) / back;
  return `about ${format.seconds(Math.max(1, Math.round(each * (run.total - run.rounds))))} left`;
}
