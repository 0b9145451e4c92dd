// What waits beside a step: pending writes and interrupts.

import { get } from "../api.js";
import { h, put, code } from "../dom.js";
import { icon } from "../icons.js";
import { plural } from "../format.js";
import { during, empty } from "../parts.js";
import { tree } from "../tree.js";
import { stepBar } from "./steps.js";

export function writes(context) {
  const { root, signal, where } = context;
  const bar = stepBar(context, signal);
  const place = h("div.stack");
  put(root, bar.bar, place);

  const draw = async () => {
    const got = await get("writes", { ...where, at: context.get("at") }, signal);
    if (!got.writes.length && !got.interrupts.length) {
      return empty("check", "Nothing waits at this step", "Pending writes are what a step's tasks have done before the step is complete. An interrupt waits for a person's answer.");
    }
    const tasks = new Map();
    for (const one of got.writes) tasks.set(one.task_id, [...(tasks.get(one.task_id) ?? []), one]);
    return [
      got.interrupts.map((one) => h("div.card.interrupt", {},
        h("div.card-head", {}, icon("interrupt"), h("h2", {}, "Waits for an answer"), h("span.spacer"), one.id ? code(one.id, 30) : null),
        tree(one.value, { label: "Interrupt", open: 3 }))),
      [...tasks].map(([task, list]) => h("div.card", {},
        h("div.card-head", {}, icon("tool"), h("h2", {}, "Task ", code(task, 48)), h("span.spacer"), h("span.muted", {}, plural(list.length, "write"))),
        h("ul.writes", {}, list.map((one) => h("li.write", {}, h("div.write-channel", {}, code(one.channel, 60), h("span.index", {}, `#${one.index}`)),
          tree(one.value, { label: one.channel, open: 1 })))))),
    ];
  };
  during(place, signal, draw, { rows: 5 });
  return { key: bar.key, renew: () => during(place, signal, draw, { quiet: true }) };
}
