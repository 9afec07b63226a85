// Runs that differ only in their seeds as one line: the mean with its standard error.
"use strict";

// Lines of single runs, joined by group; a running run stays a line of its own.
function joinGroups(lines, runs, view) {
  const groups = new Map();
  lines.forEach((line, i) => {
    const id = runs[i].status === "running" ? line.id : view.owner.get(runs[i].key);
    if (!groups.has(id)) groups.set(id, []);
    groups.get(id).push(line);
  });
  return [...groups].map(([id, members]) => (members.length > 1 ? meanLine(id, members, view) : members[0]));
}

function meanLine(id, members, view) {
  const length = Math.min(...members.map((line) => line.y.length)); // as far as all of them went
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const line = { ...members[0], id, name: view.groupLabel(id), x: [], y: [], low: [], high: [] };
  for (let i = 0; i < length; i++) {
    const values = members.map((member) => member.y[i]);
    line.x.push(mean(members.map((member) => member.x[i])));
    if (values.some((value) => value === null || value === undefined)) {
      for (const part of [line.y, line.low, line.high]) part.push(null);
      continue;
    }
    const middle = mean(values);
    const spread = values.reduce((sum, value) => sum + (value - middle) ** 2, 0) / (values.length - 1);
    const error = Math.sqrt(spread / values.length);
    line.y.push(middle);
    line.low.push(middle - error);
    line.high.push(middle + error);
  }
  return line;
}

// What distinguishes groups of the same name: their settings that differ, or the names of their runs.
function groupLabels(runs, details, owner) {
  const groups = new Map();
  for (const run of runs) {
    const id = owner.get(run.key);
    if (!groups.has(id)) groups.set(id, []);
    groups.get(id).push(run);
  }
  const seeds = (members) => (members.length > 1 ? `${members.length} seeds` : null);
  const byName = new Map();
  for (const [id, members] of groups) byName.set(members[0].name, [...(byName.get(members[0].name) || []), id]);
  const labels = new Map();
  for (const [name, ids] of byName) {
    const settings = ids.map((id) => {
      const known = details.get(groups.get(id)[0].key);
      return new Map(known ? flatten(known.settings) : []);
    });
    const names = [...new Set(settings.flatMap((one) => [...one.keys()]))].filter((part) => part !== "seed");
    const differing = names.filter((part) => new Set(settings.map((one) => one.get(part))).size > 1).slice(0, 2);
    const words = settings.map((one) => differing.map((part) => `${part} ${one.get(part) ?? "–"}`).join(", "));
    const apart = new Set(words).size === ids.length;
    ids.forEach((id, i) => {
      const members = groups.get(id);
      const own = apart ? words[i] : `run ${members.map((run) => run.id).join(", ")}`;
      const parts = [ids.length > 1 ? own : null, seeds(members)].filter(Boolean);
      labels.set(id, parts.length ? `${name} (${parts.join(", ")})` : name);
    });
  }
  return labels;
}
