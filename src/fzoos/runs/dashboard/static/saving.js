// Plots as PNG files, plots and tables as CSV files: made here, nothing is sent anywhere.
"use strict";

const DRAWN = [
  ...["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "stroke-linecap"],
  ...["opacity", "font-size", "font-family", "font-weight", "text-anchor", "visibility"],
];
const SHARPNESS = 2; // pixels of the picture for each of the page

function save(blob, name) {
  const link = html("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// Text as a spreadsheet takes it: in quotation marks where needed, and never as a formula.
function cell(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return String(value);
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function saveTable(rows, name) {
  const text = rows.map((row) => row.map(cell).join(",")).join("\n");
  save(new Blob([`${text}\n`], { type: "text/csv;charset=utf-8" }), name);
}

// A row for each point: the line it belongs to, its place and its value.
function plotRows(plot) {
  const bands = plot.series.some((line) => line.low);
  const rows = [["line", KINDS[plot.kind].label, plot.unit, ...(bands ? ["lower", "upper"] : [])]];
  for (const line of plot.series)
    line.x.forEach((x, i) => {
      if (line.y[i] === null || line.y[i] === undefined) return;
      rows.push([line.name, x, line.y[i], ...(bands ? [line.low?.[i], line.high?.[i]] : [])]);
    });
  return rows;
}

// The plot as it is seen, with its title above and the names of its lines below.
function picture(chart) {
  const { svg: seen, plot } = chart;
  const width = chart.host.clientWidth;
  const height = chart.host.clientHeight;
  const copy = seen.cloneNode(true);
  const from = [seen, ...seen.querySelectorAll("*")];
  const to = [copy, ...copy.querySelectorAll("*")];
  from.forEach((node, i) => {
    const style = getComputedStyle(node);
    for (const name of DRAWN) to[i].setAttribute(name, style.getPropertyValue(name));
    to[i].removeAttribute("class");
    to[i].removeAttribute("style");
  });
  for (const node of copy.querySelectorAll('[visibility="hidden"]')) node.remove();
  const style = getComputedStyle(chart.host.closest(".card"));
  const font = { "font-family": style.fontFamily, fill: style.color };
  const head = 34;
  const lines = plot.series.filter((line) => chart.drawn.some((one) => one.id === line.id));
  const rows = lines.length > 1 || plot.id === "convergence" ? lines : [];
  const foot = rows.length * 20 + 12;
  copy.setAttribute("viewBox", `0 ${-head} ${width} ${height + head + foot}`);
  copy.setAttribute("width", width);
  copy.setAttribute("height", height + head + foot);
  copy.prepend(
    svg("rect", { x: 0, y: -head, width, height: height + head + foot, fill: style.backgroundColor }),
    svg("text", { x: 12, y: -12, "font-size": 15, "font-weight": 600, ...font }, chart.plot.heading),
  );
  rows.forEach((line, i) => {
    const y = height + 12 + 20 * i;
    const group = [...seen.querySelectorAll(".line")].find((node) => node.dataset.id === line.id);
    const colour = getComputedStyle(group.querySelector(".curve")).stroke;
    copy.append(
      svg("path", {
        d: `M14 ${y}h24`,
        stroke: colour,
        "stroke-width": 2.4,
        "stroke-dasharray": DASHES[(line.dash || 0) % DASHES.length],
      }),
      svg("text", { x: 46, y: y + 4, "font-size": 12, ...font }, line.name),
    );
  });
  return { copy, width, height: height + head + foot };
}

async function savePicture(chart, name) {
  const { copy, width, height } = picture(chart);
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(copy))}`;
  await image.decode();
  const canvas = html("canvas", { width: width * SHARPNESS, height: height * SHARPNESS });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  canvas.toBlob((blob) => save(blob, name), "image/png");
}
