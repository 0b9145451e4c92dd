// Marks the words that a search has found, in text that is already on the page.

import { h } from "./dom.js";

const MOST = 2000;

/** Return a function that wraps the words below an element in `mark`; null without words. */
export function marker(words) {
  if (!words?.length) return null;
  const spelt = [...words].sort((a, b) => b.length - a.length).map((word) => word.replace(/[.*+?^${}()|[\]\\/-]/g, "\\$&"));
  const pattern = new RegExp(`(?<![\\p{L}\\p{N}])(?:${spelt.join("|")})(?![\\p{L}\\p{N}])|${spelt.filter((word) => /[^\p{Script=Latin}\p{N}]/u.test(word)).join("|") || "(?!)"}`, "gu");
  let marked = 0;
  return (root) => {
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    const texts = [];
    while (walker.nextNode()) texts.push(walker.currentNode);
    for (const node of texts) {
      const text = node.data.normalize("NFC");
      const nodes = [];
      let from = 0;
      for (const match of text.matchAll(pattern)) {
        if (!match[0] || ++marked > MOST) break;
        nodes.push(text.slice(from, match.index), h("mark", {}, match[0]));
        from = match.index + match[0].length;
      }
      if (nodes.length) node.replaceWith(...nodes, text.slice(from));
    }
  };
}
