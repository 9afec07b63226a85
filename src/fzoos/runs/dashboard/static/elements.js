// Elements of the page. Text is only ever set as text: a run's name or a failure's reason may be anything.
"use strict";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name.startsWith("--")) node.style.setProperty(name, value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

function html(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text; // what is selected stays selected
}

// Rebuilds the content of a node only if what it shows has changed.
function rebuild(node, shown, build) {
  const signature = JSON.stringify(shown);
  if (node.dataset.shown === signature) return;
  node.dataset.shown = signature;
  node.replaceChildren(...build().filter(Boolean));
}

// A group of radio buttons that looks like one control.
function segments(name, legend, options, onchange) {
  const labels = options.map(([value, text]) =>
    html(
      "label",
      {},
      html("input", { type: "radio", name, value, onchange: () => onchange(value) }),
      html("span", {}, text),
    ),
  );
  return html("fieldset", { class: "segments" }, html("legend", { class: "hidden" }, legend), labels);
}

function choose(fieldset, value) {
  for (const input of fieldset.querySelectorAll("input")) input.checked = input.value === value;
}

const STATUS = {
  running: "running",
  completed: "completed",
  stopped: "stopped",
  budget: "budget spent",
  interrupted: "interrupted",
  failed: "failed",
};

function pill(status) {
  return html("span", { class: `pill ${status}` }, STATUS[status] || status);
}

// A tag of a run.
function chip(tag) {
  return html("span", { class: "chip" }, tag);
}
