// Numbers as people read them, and where the ticks of an axis stand.
"use strict";

const format = {
  superscript(exponent) {
    return String(exponent)
      .replace("-", "⁻")
      .replace(/[0-9]/g, (digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]);
  },

  // Significant digits, with a power of ten where there would be too many zeros.
  number(value, digits = 4) {
    if (value === null || value === undefined || !Number.isFinite(value)) return "–";
    if (value === 0) return "0";
    const size = Math.abs(value);
    if (size >= 1e-3 && size < 1e6) {
      const places = Math.max(0, digits - 1 - Math.floor(Math.log10(size)));
      return this.minus(value.toLocaleString("en-US", { maximumFractionDigits: Math.min(places, 12) }));
    }
    const [mantissa, exponent] = value.toExponential(digits - 1).split("e");
    return this.minus(`${Number(mantissa)}×10${this.superscript(Number(exponent))}`);
  },

  minus(text) {
    return text.replace("-", "−");
  },

  count(value) {
    return value === null || value === undefined ? "–" : Math.round(value).toLocaleString("en-US");
  },

  // All ticks of an axis are written as its largest is.
  compact(value, largest) {
    for (const [unit, sign] of [
      [1e9, "G"],
      [1e6, "M"],
      [1e3, "k"],
    ]) {
      if (largest >= unit && largest >= 1e4) return this.minus(`${Number((value / unit).toPrecision(4))}${sign}`);
    }
    return this.minus(Number(value.toPrecision(6)).toLocaleString("en-US"));
  },

  bytes(value) {
    if (value === null || value === undefined) return "–";
    for (const [unit, sign] of [
      [1e12, "TB"],
      [1e9, "GB"],
      [1e6, "MB"],
      [1e3, "kB"],
    ]) {
      if (value >= unit) return `${Number((value / unit).toPrecision(3))} ${sign}`;
    }
    return `${Number(value.toPrecision(3))} B`;
  },

  seconds(value) {
    if (value === null || value === undefined || !Number.isFinite(value)) return "–";
    if (value === 0) return "0 s";
    if (value < 1) return `${Number((value * 1000).toPrecision(2))} ms`;
    if (value < 60) return `${Number(value.toPrecision(3))} s`;
    const whole = Math.round(value);
    const two = (part) => String(part).padStart(2, "0");
    if (whole < 3600) return whole % 60 ? `${Math.floor(whole / 60)} min ${two(whole % 60)} s` : `${whole / 60} min`;
    const minutes = Math.round(value / 60);
    if (minutes < 48 * 60)
      return minutes % 60 ? `${Math.floor(minutes / 60)} h ${two(minutes % 60)} min` : `${minutes / 60} h`;
    return `${Number((value / 86400).toPrecision(3))} days`;
  },

  // A tick of a logarithmic axis.
  power(value) {
    const exponent = Math.floor(Math.log10(value) + 1e-9);
    if (exponent >= -3 && exponent <= 3)
      return this.minus(Number(value.toPrecision(3)).toLocaleString("en-US", { maximumFractionDigits: 6 }));
    const mantissa = Number((value / 10 ** exponent).toPrecision(3));
    return `${mantissa === 1 ? "" : `${mantissa}×`}10${this.superscript(exponent)}`;
  },

  briefly(seconds) {
    const date = new Date(seconds * 1000);
    if (date.toDateString() === new Date().toDateString())
      return date.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
    return date.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
  },

  when(seconds) {
    const date = new Date(seconds * 1000);
    const day =
      date.toDateString() === new Date().toDateString()
        ? "today"
        : date.toLocaleDateString("en-GB", { day: "numeric", month: "short", year: "numeric" });
    return `${day}, ${date.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" })}`;
  },
};

const ticks = {
  // Steps of 1, 2 or 5 times a power of ten; for times also those of a clock.
  linear(low, high, wanted, kind) {
    const rough = (high - low) / Math.max(1, wanted);
    let step;
    if (kind === "seconds" && rough > 10) {
      const clock = [15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400];
      step = clock.find((candidate) => candidate >= rough);
    }
    if (!step) {
      const power = 10 ** Math.floor(Math.log10(rough));
      step = [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= rough * (1 - 1e-9));
    }
    if (kind === "count" || kind === "bytes") step = Math.max(1, Math.round(step));
    const found = [];
    const first = Math.ceil(low / step - 1e-9);
    for (let k = first; k * step <= high + step * 1e-9 && found.length < 50; k++) found.push(k * step);
    if (found.length < 3 && wanted < 20) return this.linear(low, high, wanted * 1.5, kind); // two do not show a scale
    return { at: found, step };
  },

  // Powers of ten; their multiples too where there are few.
  logarithmic(low, high, wanted) {
    const decades = Math.log10(high / low);
    const first = Math.ceil(Math.log10(low) - 1e-9);
    const last = Math.floor(Math.log10(high) + 1e-9);
    if (last - first >= 1) {
      const every = Math.max(1, Math.ceil((last - first) / Math.max(1, wanted)));
      const at = [];
      for (let exponent = first; exponent <= last; exponent++) if (exponent % every === 0) at.push(10 ** exponent);
      if (at.length >= 2 && decades > 2)
        return { at, minor: decades <= 6 && every === 1 ? this.between(low, high, first - 1, last) : [] };
    }
    const factors = decades > 0.7 ? [1, 2, 5] : decades > 0.3 ? [1, 1.5, 2, 3, 4, 5, 6, 8] : null;
    if (!factors) return { at: this.linear(low, high, wanted).at.filter((value) => value > 0) };
    const at = [];
    for (let exponent = first - 1; exponent <= last; exponent++) {
      for (const factor of factors) {
        const value = factor * 10 ** exponent;
        if (value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9)) at.push(value);
      }
    }
    return { at };
  },

  // The multiples of the powers of ten, for a finer grid.
  between(low, high, first, last) {
    const at = [];
    for (let exponent = first; exponent <= last; exponent++) {
      for (let factor = 2; factor < 10; factor++) at.push(factor * 10 ** exponent);
    }
    return at.filter((value) => value >= low && value <= high);
  },

  // The text of a tick on a linear axis: as many decimals as the step needs.
  label(value, step, kind, largest) {
    if (Math.abs(value) < step * 1e-6) return kind === "seconds" ? "0 s" : kind === "bytes" ? "0 B" : "0";
    if (kind === "seconds") return format.seconds(value);
    if (kind === "bytes") return format.bytes(value);
    if (kind === "count" || largest >= 1e4) return format.compact(value, largest);
    if (largest < 1e-3) return format.number(value, 3);
    const places = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    return format.minus(
      value.toLocaleString("en-US", { minimumFractionDigits: places, maximumFractionDigits: places }),
    );
  },
};

// F after each round in which it was measured and x was not known to be infeasible.
function allowedValues(history) {
  return history.monitor.filter((value, i) => value !== null && history.feasible[i] !== false);
}

// The smallest of many numbers; Math.min accepts a limited number.
function least(values) {
  return values.reduce((low, value) => (value < low ? value : low), Infinity);
}
