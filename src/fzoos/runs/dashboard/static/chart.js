// A plot of lines: axes, grid, bands, and a read-out under the pointer or the arrow keys.
"use strict";

const KINDS = {
  round: { label: "rounds", ticks: "count", read: (value) => `round ${format.count(value)}` },
  queries: { label: "queries of all clients", ticks: "count", read: (value) => `${format.count(value)} queries` },
  bytes: { label: "bytes, up and down", ticks: "bytes", read: (value) => `${format.bytes(value)}` },
  seconds: { label: "seconds", ticks: "seconds", read: (value) => `${format.seconds(value)}` },
};
const DASHES = ["", "7 4", "2 4", "9 3 2 3"];
const TOP = 24;
const RIGHT = 14;
const BOTTOM = 42;
const ROWS_READ = 10; // of the read-out

const measure = document.createElement("canvas").getContext("2d");

class Chart {
  // host: an empty element; its size is the plot's.
  constructor(host) {
    this.host = host;
    this.svg = svg("svg", { role: "img" });
    this.tip = html("div", { class: "tip", role: "status", hidden: true });
    this.note = html("p", { class: "note" });
    host.classList.add("chart");
    host.append(this.svg, this.tip, this.note);
    this.plot = null;
    this.pointed = null; // where the read-out stands, in pixels
    this.size = "";
    this.drawn = [];
    this.zoom = new Zoom(this);
    host.append(this.zoom.button);
    this.svg.addEventListener("pointermove", (event) => this.zoom.box || this.point(this.local(event)));
    this.svg.addEventListener("pointerdown", (event) => this.point(this.local(event)));
    // A finger leaves at once; what it has read stays until the next touch.
    this.svg.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && this.leave());
    document.addEventListener(
      "pointerdown",
      (event) => this.pointed && !this.svg.contains(event.target) && this.leave(),
    );
    this.svg.addEventListener("blur", () => this.leave());
    this.svg.addEventListener("keydown", (event) => this.press(event));
    new ResizeObserver(() => {
      const size = `${host.clientWidth} ${host.clientHeight}`;
      if (size !== this.size) this.draw();
    }).observe(host);
  }

  // plot: heading (of the card), title, unit (what y is), series [{id, name, colour, dash, x, y, low, high, faint,
  // alive}], kind (of x), xLog, yLog, fromZero, empty (what to say where there is nothing to draw).
  show(plot) {
    this.plot = plot;
    this.draw();
  }

  local(event) {
    const box = this.svg.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  draw() {
    if (!this.plot || !this.host.clientWidth) return;
    const { plot } = this;
    const width = this.host.clientWidth;
    const height = this.host.clientHeight;
    this.size = `${width} ${height}`;
    const fits = (value, log) => Number.isFinite(value) && (!log || value > 0);
    let hidden = 0;
    const series = plot.series.map((one) => {
      const points = [];
      one.x.forEach((x, i) => {
        const y = one.y[i];
        const known = y !== null && y !== undefined;
        if (known && !fits(y, plot.yLog)) hidden++;
        const point = one.low ? { x, y, low: one.low[i], high: one.high[i] } : { x, y };
        points.push(known && fits(x, plot.xLog) && fits(y, plot.yLog) ? point : null);
      });
      return { ...one, points };
    });
    const all = series.flatMap((one) => one.points.filter(Boolean));
    setText(
      this.note,
      hidden ? `${hidden} ${hidden === 1 ? "value" : "values"} at or below zero cannot be drawn on a log axis` : "",
    );
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.svg.replaceChildren();
    this.drawn = [];
    this.host.classList.toggle("void", !all.length);
    if (!all.length) {
      this.svg.removeAttribute("tabindex");
      this.svg.setAttribute("aria-label", `${plot.title}: ${plot.empty}`);
      this.svg.append(
        svg("text", { class: "nothing", x: width / 2, y: height / 2, "text-anchor": "middle" }, plot.empty),
      );
      this.tip.hidden = true;
      this.frame = null;
      this.zoom.button.hidden = true;
      return;
    }
    const kind = KINDS[plot.kind];
    this.svg.setAttribute("tabindex", "0");
    const names =
      plot.series.length > 6 ? `${plot.series.length} lines` : plot.series.map((one) => one.name).join(", ");
    const keys = "The arrow keys read values, plus and minus zoom, 0 shows all.";
    this.svg.setAttribute("aria-label", `${plot.title} against ${kind.label}: ${names}. ${keys}`);

    const whole = this.range(
      all.map((point) => point.x),
      plot.xLog,
      true,
      0,
    );
    const near = this.zoom.of(`${plot.kind} ${plot.xLog} ${plot.yLog} ${plot.unit}`);
    const [xLow, xHigh] = near ? near.x : whole;
    const within = near ? all.filter((point) => point.x >= xLow && point.x <= xHigh) : all;
    const heights = (within.length ? within : all).flatMap((point) =>
      point.low === undefined ? [point.y] : [point.y, point.high, ...(fits(point.low, plot.yLog) ? [point.low] : [])],
    );
    const [yLow, yHigh] = near?.y || this.range(heights, plot.yLog, plot.fromZero && !near);
    const yTicks = this.ticks(yLow, yHigh, plot.yLog, "number", Math.max(2, Math.floor((height - TOP - BOTTOM) / 38)));
    measure.font = getComputedStyle(this.svg).font;
    const left = Math.ceil(Math.max(30, ...yTicks.map((tick) => measure.measureText(tick.text).width + 14)));
    const right = width - RIGHT;
    const bottom = height - BOTTOM;
    const xTicks = this.ticks(xLow, xHigh, plot.xLog, kind.ticks, Math.max(2, Math.floor((right - left) / 72)));
    const place = (low, high, log, from, to) => {
      const at = log ? Math.log10 : (value) => value;
      return (value) => from + ((at(value) - at(low)) / (at(high) - at(low))) * (to - from);
    };
    const px = place(xLow, xHigh, plot.xLog, left, right);
    const py = place(yLow, yHigh, plot.yLog, bottom, TOP);
    this.frame = { left, right, top: TOP, bottom, width, height };
    const unplace = (low, high, log, from, to) => (pixel) => {
      const share = (pixel - from) / (to - from);
      return log ? low * (high / low) ** share : low + (high - low) * share;
    };
    const back = { x: unplace(xLow, xHigh, plot.xLog, left, right), y: unplace(yLow, yHigh, plot.yLog, bottom, TOP) };
    this.scale = { back, whole };

    const grid = svg("g", { class: "grid" });
    const labels = svg("g", { class: "ticks" });
    for (const tick of yTicks) {
      const y = Math.round(py(tick.value)) + 0.5;
      grid.append(svg("line", { x1: left, x2: right, y1: y, y2: y }));
      labels.append(svg("text", { class: "y", x: left - 8, y: y + 4, "text-anchor": "end" }, tick.text));
    }
    if (plot.yLog) {
      for (const value of ticks.logarithmic(yLow, yHigh, 9).minor || []) {
        const y = Math.round(py(value)) + 0.5;
        grid.append(svg("line", { class: "minor", x1: left, x2: right, y1: y, y2: y }));
      }
    }
    let free = -Infinity; // where the next label may begin
    for (const tick of xTicks) {
      const x = Math.round(px(tick.value)) + 0.5;
      grid.append(svg("line", { x1: x, x2: x, y1: TOP, y2: bottom }));
      const half = measure.measureText(tick.text).width / 2;
      const middle = Math.min(x, width - half - 2);
      if (middle - half < free) continue;
      labels.append(svg("text", { class: "x", x: middle, y: bottom + 18, "text-anchor": "middle" }, tick.text));
      free = middle + half + 8;
    }
    const base = svg("path", { class: "axis", d: `M${left + 0.5} ${TOP}V${bottom + 0.5}H${right}` });
    const unit = svg(
      "text",
      { class: "axis-title", x: left, y: 12, "text-anchor": "start" },
      plot.unit + (plot.yLog ? ", log scale" : ""),
    );
    const title = svg(
      "text",
      { class: "axis-title", x: (left + right) / 2, y: height - 6, "text-anchor": "middle" },
      kind.label + (plot.xLog ? ", log scale" : ""),
    );

    const lines = near ? this.window(left, right, bottom) : svg("g", { class: "lines" });
    const seen = ({ px, py }) => !near || (px > left - 1 && px < right + 1 && py > TOP - 1 && py < bottom + 1);
    for (const one of series) {
      const points = one.points.map((point) => point && { ...point, px: px(point.x), py: py(point.y) });
      const solid = points.filter(Boolean);
      if (!solid.length) continue;
      const group = svg("g", { class: `line${one.faint ? " faint" : ""}`, "data-id": one.id, "--colour": one.colour });
      const edge = (value) => (fits(value, plot.yLog) ? py(value) : bottom); // below what a log axis has
      if (one.low) group.append(svg("path", { class: "band", d: this.band(solid, edge) }));
      group.append(
        svg("path", {
          class: "curve",
          d: this.path(points, right - left),
          "stroke-dasharray": DASHES[(one.dash || 0) % DASHES.length],
        }),
      );
      const last = solid[solid.length - 1];
      if (one.alive) group.append(svg("circle", { class: "pulse", cx: last.px, cy: last.py, r: 4 }));
      if (!one.faint) group.append(svg("circle", { cx: last.px, cy: last.py, r: solid.length === 1 ? 4 : 3 }));
      lines.append(group);
      const visible = solid.filter(seen);
      if (visible.length) this.drawn.push({ ...one, points: visible });
    }
    this.cross = svg("line", { class: "cross", y1: TOP, y2: bottom, visibility: "hidden" });
    this.dots = svg("g", { class: "dots" });
    this.svg.append(grid, base, labels, unit, title, lines, this.cross, this.dots);
    if (this.lit) this.highlight(this.lit);
    if (this.pointed) this.point(this.pointed);
  }

  // What is outside of it is not seen.
  window(left, right, bottom) {
    const [width, height] = [right - left, bottom - TOP];
    return svg("svg", { class: "lines", x: left, y: TOP, width, height, viewBox: `${left} ${TOP} ${width} ${height}` });
  }

  // Along the upper edge and back along the lower one.
  band(points, edge) {
    const at = (point, value) => `${point.px.toFixed(1)} ${edge(value).toFixed(1)}`;
    const upper = points.map((point) => at(point, point.high));
    const lower = points.map((point) => at(point, point.low)).reverse();
    return `M${[...upper, ...lower].join("L")}Z`;
  }

  range(values, log, fromZero, margin = 0.06) {
    let low = Infinity;
    let high = -Infinity;
    for (const value of values) {
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
    if (log) {
      if (high / low < 1.2) [low, high] = [low / 1.5, high * 1.5];
      const room = (high / low) ** margin;
      return [low / room, high * room];
    }
    if (fromZero && low >= 0) low = 0;
    if (low === high) {
      const room = Math.abs(low) * 0.1 || 1;
      return margin ? [low - room, high + room] : [low, high + room];
    }
    const room = (high - low) * margin;
    return [fromZero && low === 0 ? 0 : low - room, high + room];
  }

  ticks(low, high, log, kind, wanted) {
    if (!log) {
      const { at, step } = ticks.linear(low, high, wanted, kind);
      const largest = Math.max(...at.map(Math.abs));
      return at.map((value) => ({ value, text: ticks.label(value, step, kind, largest) }));
    }
    const text = { bytes: (value) => format.bytes(value), seconds: (value) => format.seconds(value) }[kind];
    return ticks
      .logarithmic(low, high, wanted)
      .at.map((value) => ({ value, text: text ? text(value) : format.power(value) }));
  }

  // Of many points that fall on one column of pixels, the first, the lowest, the highest and the last are drawn.
  path(points, width) {
    const kept = points.length > 4 * width ? this.thin(points) : points;
    let text = "";
    let pen = false;
    kept.forEach((point, i) => {
      if (!point) {
        pen = false;
        return;
      }
      const at = `${point.px.toFixed(1)} ${point.py.toFixed(1)}`;
      text += pen ? `L${at}` : `M${at}`;
      if (!pen && !kept[i + 1]) text += `L${at}`; // a point on its own is a dot
      pen = true;
    });
    return text;
  }

  thin(points) {
    const kept = [];
    let column = [];
    const flush = () => {
      if (!column.length) return;
      const order = [...column].sort((a, b) => a.py - b.py);
      const some = new Set([column[0], order[0], order[order.length - 1], column[column.length - 1]]);
      kept.push(...column.filter((point) => some.has(point)));
      column = [];
    };
    for (const point of points) {
      if (!point) {
        flush();
        kept.push(null);
      } else {
        if (column.length && Math.floor(column[0].px) !== Math.floor(point.px)) flush();
        column.push(point);
      }
    }
    flush();
    return kept;
  }

  nearest(points, x) {
    let low = 0;
    let high = points.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (points[middle].px < x) low = middle + 1;
      else high = middle;
    }
    return low > 0 && x - points[low - 1].px <= points[low].px - x ? low - 1 : low;
  }

  point(at) {
    this.pointed = at;
    if (!this.drawn.length) return;
    const { left, right, top, bottom, width } = this.frame;
    const inside = Math.min(Math.max(at.x, left), right);
    const found = this.drawn.map((one) => ({ one, point: one.points[this.nearest(one.points, inside)] }));
    const best = found.reduce((a, b) => (Math.abs(a.point.px - inside) <= Math.abs(b.point.px - inside) ? a : b));
    const x = best.point.px;
    const reach = Math.max(12, (right - left) / 60);
    let rows = found.filter(({ point }) => Math.abs(point.px - x) <= reach);
    const more = Math.max(0, rows.length - ROWS_READ);
    if (more) {
      const y = Math.min(Math.max(at.y ?? top, top), bottom);
      rows.sort((a, b) => Math.abs(a.point.py - y) - Math.abs(b.point.py - y));
      rows = rows.slice(0, ROWS_READ);
    }
    rows.sort((a, b) => b.point.y - a.point.y);
    this.cross.setAttribute("x1", x);
    this.cross.setAttribute("x2", x);
    this.cross.setAttribute("visibility", "visible");
    this.dots.replaceChildren(
      ...rows.map(({ one, point }) => svg("circle", { cx: point.px, cy: point.py, r: 4, "--colour": one.colour })),
    );
    this.tip.replaceChildren(
      html("div", { class: "tip-head" }, KINDS[this.plot.kind].read(best.point.x)),
      ...rows.map(({ one, point }) =>
        html(
          "div",
          { class: "tip-row" },
          html("i", { "--colour": one.colour }),
          html("span", {}, one.name),
          html("b", {}, format.number(point.y, 5)),
        ),
      ),
      more ? html("div", { class: "tip-more" }, `and ${more} more`) : "",
    );
    this.tip.hidden = false;
    const room = this.tip.offsetWidth;
    const side = x + 16 + room < width ? x + 16 : Math.max(4, x - 16 - room);
    this.tip.style.left = `${side}px`;
    this.tip.style.top = `${Math.max(4, Math.min((at.y ?? top) - 20, bottom - this.tip.offsetHeight))}px`;
  }

  leave() {
    this.pointed = null;
    this.tip.hidden = true;
    if (this.cross) this.cross.setAttribute("visibility", "hidden");
    if (this.dots) this.dots.replaceChildren();
  }

  press(event) {
    if (this.frame && this.zoom.key(event.key, this.pointed?.x)) {
      event.preventDefault();
      return;
    }
    if (!this.drawn.length) return;
    if (event.key === "Escape") {
      this.leave();
      return;
    }
    const longest = this.drawn.reduce((a, b) => (b.points.length > a.points.length ? b : a)).points;
    const now = this.pointed ? this.nearest(longest, this.pointed.x) : longest.length;
    const last = longest.length - 1;
    const next = { ArrowLeft: now - 1, ArrowRight: this.pointed ? now + 1 : last, Home: 0, End: last }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    this.point({ x: longest[Math.min(Math.max(next, 0), last)].px, y: this.frame.top + 20 });
  }

  // One line stands out; null: all are equal again.
  highlight(id) {
    this.lit = id;
    for (const group of this.svg.querySelectorAll(".line"))
      group.classList.toggle("dim", id !== null && group.dataset.id !== id);
  }
}
