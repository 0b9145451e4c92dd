// Sets the colour theme before the first paint. Loaded as a classic script, in the head.
"use strict";
(() => {
  const KEY = "memalchemy.theme";
  let chosen = null;
  try {
    chosen = localStorage.getItem(KEY);
  } catch {
    // Storage is blocked: the system's preference holds.
  }
  if (chosen === "light" || chosen === "dark") {
    document.documentElement.dataset.theme = chosen;
  }
})();
