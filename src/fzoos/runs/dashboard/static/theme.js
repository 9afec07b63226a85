// Runs before anything is drawn, so that a dark page does not flash white.
"use strict";

const theme = {
  get() {
    try {
      return localStorage.getItem("fzoos-theme") || "auto";
    } catch {
      return "auto"; // a browser that keeps nothing for this page
    }
  },
  set(value) {
    try {
      localStorage.setItem("fzoos-theme", value);
    } catch {
      // then it holds until the page is closed
    }
    this.apply(value);
  },
  apply(value) {
    document.documentElement.dataset.theme = value;
  },
};
theme.apply(theme.get());
