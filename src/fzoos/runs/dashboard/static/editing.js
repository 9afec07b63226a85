// Renaming, tagging and deleting a run, where the dashboard was started with --edit. Nothing changes without a dialog.
"use strict";

function editButtons(run, source) {
  if (!source.secret) return null;
  const button = (text, act, look = "small") => html("button", { type: "button", class: look, onclick: act }, text);
  return html(
    "span",
    { class: "edit" },
    button("Rename", () => rename(run, source)),
    button("Tags", () => tag(run, source)),
    button("Delete", () => remove(run, source), "small danger"),
  );
}

function rename(run, source) {
  const input = html("input", { type: "text", value: run.name, maxlength: 200, id: "dialog-input" });
  ask(`Rename run ${run.id}`, [html("label", { for: "dialog-input" }, "Name"), input], "Rename", () =>
    source.change(run, { name: input.value }),
  );
}

function tag(run, source) {
  const input = html("input", { type: "text", value: run.tags.join(", "), id: "dialog-input" });
  const label = html("label", { for: "dialog-input" }, "Tags, separated by commas");
  ask(`Tags of run ${run.id}`, [html("p", { class: "quiet" }, run.name), label, input], "Save", () =>
    source.change(run, {
      tags: input.value
        .split(",")
        .map((word) => word.trim())
        .filter(Boolean),
    }),
  );
}

function remove(run, source) {
  const rounds = `${format.count(run.rounds)} ${run.rounds === 1 ? "round" : "rounds"}`;
  const text = html("p", {}, "Run ", html("b", {}, run.name), ` (${run.file}, run ${run.id}) with its ${rounds}?`);
  const warning = html("p", { class: "quiet" }, "This cannot be undone.");
  ask("Delete this run?", [text, warning], `Delete run ${run.id}`, () => source.change(run, { delete: true }), true);
}

// A dialog with a question and two buttons. act() returns what went wrong, or null.
function ask(title, parts, yes, act, danger = false) {
  const before = document.activeElement;
  const problem = html("p", { class: "bad", role: "alert" });
  const close = () => {
    dialog.close();
    dialog.remove();
    if (before && before.isConnected) before.focus();
  };
  const go = async () => {
    agree.disabled = true;
    const wrong = await act();
    agree.disabled = false;
    if (wrong) setText(problem, wrong);
    else close();
  };
  const agree = html("button", { type: "button", class: `small ${danger ? "danger" : "main"}`, onclick: go }, yes);
  const cancel = html("button", { type: "button", class: "small", onclick: close, autofocus: danger }, "Cancel");
  const dialog = html(
    "dialog",
    {
      "aria-label": title,
      oncancel: (event) => {
        event.preventDefault();
        close();
      },
      onkeydown: (event) => {
        if (event.key !== "Enter" || event.target.tagName !== "INPUT") return;
        event.preventDefault();
        go();
      },
    },
    html("h2", {}, title),
    ...parts,
    problem,
    html("div", { class: "answers" }, cancel, agree),
  );
  document.body.append(dialog);
  dialog.showModal();
  const input = dialog.querySelector("input");
  if (input) input.select();
}
