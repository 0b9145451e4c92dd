// A step's state as a tree.

import { get } from "../api.js";
import { h, put, code } from "../dom.js";
import { number } from "../format.js";
import { copyButton, during, empty } from "../parts.js";
import { plain, tree } from "../tree.js";
import { entries } from "./entries.js";
import { stepBar } from "./steps.js";

export function state(context) {
  const { root, signal, where } = context;
  if (context.about().newest_id === null) {
    // A log has entries in place of states.
    return entries(context);
  }
  const at = context.get("at");
  const from = context.get("path") ?? "";
  const bar = stepBar(context, signal);
  const place = h("div.card.tree-card");
  put(root, bar.bar, place);
  const ask = (path, offset) => get("state", { ...where, at, path, offset }, signal);

  const draw = async () => {
    const got = await ask(from, 0);
    const parts = from.split("/").slice(1);
    return [
      h("div.card-head", {},
        h("span.mono", {}, from ? [h("a", { href: context.link({ path: null }) }, "state"), parts.map((part, n) => [
          h("span.slash", {}, "/"), h("a", { href: context.link({ path: `/${parts.slice(0, n + 1).join("/")}` }) }, code(part.replaceAll("~1", "/").replaceAll("~0", "~"), 40))])] : "state"),
        h("span.type", {}, `${got.node.class ?? got.node.type}${got.node.length === undefined || got.node.length === null ? "" : ` ${number(got.node.length)}`}`),
        h("span.spacer"), copyButton(location.href, "Copy the link")),
      got.node.type === "null" ? empty("item", "Nothing here", plain(got.node)) : tree(got.node, { load: (path, offset) => ask(path, offset).then((one) => one.node), path: from, open: 2, label: "State" }),
    ];
  };
  during(place, signal, draw, { rows: 10, kind: "tree" });
  return {
    key: bar.key,
    renew() {
      // Opened branches stay as they are: the bar says that a newer step is there.
      if (!at) put(bar.bar, h("span.badge.now", {}, "a newer step was saved"), h("button.button.small", { type: "button", on: { click: () => context.open({ at: null }) } }, "Show it"));
    },
  };
}
