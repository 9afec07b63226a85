// A part of a plot: a rectangle drawn with the mouse, a double click or tap, or the keys + and −.
"use strict";

const SMALLEST_DRAG = 8; // pixels

class Zoom {
  // chart: has `frame` and `scale` once it is drawn.
  constructor(chart) {
    this.chart = chart;
    this.range = null; // { x: [low, high], y: [low, high] or null } in the numbers of the axes
    this.axes = "";
    this.from = null;
    this.button = html(
      "button",
      { type: "button", class: "small unzoom", hidden: true, onclick: () => this.reset() },
      "Whole plot",
    );
    const { svg: node } = chart;
    node.addEventListener("pointerdown", (event) => this.press(event));
    node.addEventListener("pointermove", (event) => this.drag(event));
    node.addEventListener("pointerup", (event) => this.release(event));
    node.addEventListener("pointercancel", () => this.forget());
    node.addEventListener("dblclick", (event) => {
      event.preventDefault();
      this.closer(0.5, chart.local(event).x);
    });
  }

  // Other axes: what was chosen on the old ones says nothing.
  of(axes) {
    if (axes !== this.axes) this.range = null;
    this.axes = axes;
    this.button.hidden = !this.range;
    return this.range;
  }

  press(event) {
    if (event.pointerType !== "mouse" || event.button || !this.chart.frame) return; // a finger reads values
    this.from = this.chart.local(event);
    this.chart.svg.setPointerCapture(event.pointerId);
  }

  drag(event) {
    if (!this.from) return;
    const to = this.inside(this.chart.local(event));
    const from = this.inside(this.from);
    if (Math.abs(to.x - from.x) < SMALLEST_DRAG && Math.abs(to.y - from.y) < SMALLEST_DRAG) return;
    if (!this.box) {
      this.box = svg("rect", { class: "choosing" });
      this.chart.svg.append(this.box);
    }
    const { top, bottom } = this.chart.frame;
    const tall = Math.abs(to.y - from.y) > 3 * SMALLEST_DRAG;
    this.box.setAttribute("x", Math.min(from.x, to.x));
    this.box.setAttribute("width", Math.abs(to.x - from.x));
    this.box.setAttribute("y", tall ? Math.min(from.y, to.y) : top);
    this.box.setAttribute("height", tall ? Math.abs(to.y - from.y) : bottom - top);
    this.chart.leave();
  }

  release(event) {
    if (!this.from) return;
    const [from, to] = [this.inside(this.from), this.inside(this.chart.local(event))];
    const drawn = this.box;
    this.forget();
    if (!drawn || Math.abs(to.x - from.x) < SMALLEST_DRAG) return;
    const { back } = this.chart.scale;
    const range = (one, other, way) => [way(one), way(other)].sort((a, b) => a - b);
    const tall = Math.abs(to.y - from.y) > 3 * SMALLEST_DRAG;
    this.range = { x: range(from.x, to.x, back.x), y: tall ? range(from.y, to.y, back.y) : null };
    this.chart.draw();
  }

  forget() {
    this.from = null;
    if (this.box) this.box.remove();
    this.box = null;
  }

  inside({ x, y }) {
    const { left, right, top, bottom } = this.chart.frame;
    return { x: Math.min(Math.max(x, left), right), y: Math.min(Math.max(y, top), bottom) };
  }

  // A share of what is seen now, about a place; more than all of it is all of it.
  closer(share, place) {
    if (!this.chart.frame) return;
    const { left, right } = this.chart.frame;
    const { back, whole } = this.chart.scale;
    const at = Math.min(Math.max(place ?? (left + right) / 2, left), right);
    let low = at - (at - left) * share;
    let high = at + (right - at) * share;
    [low, high] = [back.x(low), back.x(high)];
    if (low <= whole[0] && high >= whole[1]) this.range = null;
    else this.range = { x: [Math.max(low, whole[0]), Math.min(high, whole[1])], y: this.range ? this.range.y : null };
    this.chart.draw();
  }

  reset() {
    this.range = null;
    this.chart.draw();
    this.chart.svg.focus();
  }

  // Whether the key was one of ours.
  key(key, place) {
    if (key === "+" || key === "=") this.closer(0.5, place);
    else if (key === "-" || key === "−") this.closer(2, place);
    else if (key === "0") this.reset();
    else return false;
    return true;
  }
}
