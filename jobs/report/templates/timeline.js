/* The timeline: zoom, move, filter, search, links. The page is complete without this script. It adds no markup from
   names: texts are set as text only. */
(() => {
  "use strict";
  const byId = (id) => document.getElementById(id);

  /* A link into something folded unfolds it. */
  const reveal = () => {
    const target = byId(decodeURIComponent(location.hash.slice(1)));
    if (!target) return null;
    let folded = false;
    const fold = target.querySelector(":scope > details.fold");
    if (fold && !fold.open) { fold.open = true; folded = true; }
    for (let each = target; each; each = each.parentElement) {
      if (each.tagName === "DETAILS" && !each.open) { each.open = true; folded = true; }
    }
    if (folded) target.scrollIntoView();
    return target;
  };

  /* A button beside each command that copies it. Commands are in folded places: made when one unfolds. */
  const select = (code) => {
    const range = document.createRange();
    range.selectNodeContents(code);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
  };
  document.addEventListener("toggle", (event) => {
    if (!event.target.open) return;
    for (const code of event.target.querySelectorAll("code.copy:not(.has-button)")) {
      code.classList.add("has-button");
      const button = document.createElement("button");
      button.type = "button";
      button.className = "copy-button";
      button.textContent = "Copy";
      button.addEventListener("click", async () => {
        select(code);
        try {
          await navigator.clipboard.writeText(code.textContent);
          button.textContent = "Copied";
        } catch {
          button.textContent = "Selected: press Ctrl+C";
        }
      });
      code.after(button);
    }
  }, true);

  const lanes = byId("lanes");
  if (!lanes) { addEventListener("hashchange", reveal); reveal(); return; }
  const WIDTH = 1000, SHORTEST_MS = 20, LISTED = 100;
  const number = (name) => Number(lanes.dataset[name]);
  const first = number("first"), length = Math.max(number("last") - first, SHORTEST_MS);
  const incident = [number("from") - first, number("to") - first];
  const context = new Set(["broker", "controller", "captured"]);
  const rows = [...lanes.querySelectorAll(".lane")].map((lane) => ({
    lane,
    marks: [...lane.querySelectorAll("rect")].map((rect) => ({
      rect, kind: rect.dataset.k, topic: rect.dataset.t, verdict: rect.dataset.v,
      brokers: (rect.dataset.b || "").split(" "), start: Number(rect.dataset.s), end: Number(rect.dataset.e),
      get text() { return rect.textContent; }, href: rect.parentNode.getAttribute("href"), shown: true,
      place: `${rect.getAttribute("x")} ${rect.getAttribute("width")}`,
    })),
  }));
  const marks = rows.flatMap((row) => row.marks);
  let [from, to] = incident;

  const iso = (ms) => {
    const date = new Date(first + ms);
    return Number.isNaN(date.getTime()) ? `${first + ms} ms` : date.toISOString().replace("T", " ").replace("Z", "");
  };
  const clock = (ms) => {
    const text = iso(ms), span = to - from;
    return [text.slice(11, span < 1e4 ? 23 : span < 864e5 ? 19 : 16), text.slice(0, 10)];
  };

  const draw = () => {
    const scale = WIDTH / (to - from);
    for (const mark of marks) {
      if (!mark.shown) continue;
      const left = Math.min(Math.max((mark.start - from) * scale, -20), WIDTH + 20);
      const right = Math.min(Math.max((mark.end - from) * scale, -20), WIDTH + 20);
      const place = `${left.toFixed(2)} ${Math.max(right - left, 0.02).toFixed(2)}`;
      if (place === mark.place) continue;
      mark.place = place;
      const [x, width] = place.split(" ");
      mark.rect.setAttribute("x", x);
      mark.rect.setAttribute("width", width);
    }
    const ticks = lanes.querySelectorAll(".axis span");
    ticks.forEach((tick, at) => {
      const [time, day] = clock(from + (to - from) * at / (ticks.length - 1));
      tick.firstChild.textContent = time;
      tick.lastChild.textContent = day;
    });
    lanes.setAttribute("aria-label", lanes.getAttribute("aria-label").replace(/^Timeline from .*? UTC\./,
      `Timeline from ${iso(from)} to ${iso(to)} UTC.`));
    lanes.dataset.shownFrom = String(Math.round(first + from));
    lanes.dataset.shownTo = String(Math.round(first + to));
  };

  const list = byId("in-view");
  const inView = () => marks.filter((mark) => mark.shown && mark.end >= from && mark.start <= to);
  const tell = () => {
    const found = inView(), events = found.filter((mark) => !context.has(mark.kind));
    byId("matches").textContent = `${events.length} findings and elections in view`;
    if (!list.open) return;
    const body = list.querySelector("tbody");
    body.replaceChildren(...found.sort((a, b) => a.start - b.start).slice(0, LISTED).map((mark) => {
      const line = document.createElement("tr");
      const [when, what] = [line.insertCell(), line.insertCell()];
      when.textContent = iso(mark.start);
      when.className = "when";
      const text = mark.href ? what.appendChild(document.createElement("a")) : what;
      if (mark.href) text.setAttribute("href", mark.href);
      text.textContent = mark.text;
      return line;
    }));
  };

  let waiting = false;
  const show = (start, end) => {
    const span = Math.min(Math.max(end - start, SHORTEST_MS), length * 1.1);
    const middle = Math.min(Math.max((start + end) / 2, 0), length);
    [from, to] = [middle - span / 2, middle + span / 2];
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; draw(); tell(); });
  };
  const zoom = (factor, at = 0.5) => {
    const fixed = from + (to - from) * at, span = (to - from) * factor;
    if (span > length * 1.1) show(-length * 0.05, length * 1.05);
    else show(fixed - span * at, fixed + span * (1 - at));
  };
  const move = (part) => show(from + (to - from) * part, to + (to - from) * part);

  const filters = ["topic", "broker", "verdict", "kind", "text"].map((name) => byId(`filter-${name}`));
  const filter = () => {
    const [topic, broker, verdict, kind, text] = filters.map((field) => field.value);
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    const passes = (mark) => {
      if (context.has(mark.kind)) return !broker || mark.kind !== "broker" || mark.brokers.includes(broker);
      return (!topic || mark.topic === topic) && (!broker || mark.brokers.includes(broker))
        && (!verdict || mark.verdict === verdict) && (!kind || mark.kind === kind)
        && words.every((word) => mark.text.toLowerCase().includes(word));
    };
    for (const { lane, marks: own } of rows) {
      for (const mark of own) {
        const shown = passes(mark);
        if (shown !== mark.shown) mark.rect.classList.toggle("off", !shown);
        mark.shown = shown;
      }
      lane.classList.toggle("off", !own.some((mark) => mark.shown));
    }
    lanes.classList.toggle("filtered", filters.some((field) => field.value));
    draw();
    tell();
  };
  const unfilter = () => { for (const field of filters) field.value = ""; filter(); };

  const follow = () => {
    const target = reveal();
    const mark = target && marks.find((each) => each.rect === target);
    for (const each of lanes.querySelectorAll(".marked")) each.classList.remove("marked");
    if (!mark) return;
    if (!mark.shown) unfilter();
    mark.rect.classList.add("marked");
    if (mark.end < from || mark.start > to) {
      const around = Math.max(mark.end - mark.start, 1000);
      show(mark.start - around, mark.end + around);
    }
  };

  for (const field of filters) field.addEventListener("input", filter);
  const on = (id, action) => byId(id).addEventListener("click", action);
  on("zoom-in", () => zoom(0.5));
  on("zoom-out", () => zoom(2));
  on("earlier", () => move(-0.5));
  on("later", () => move(0.5));
  on("show-incident", () => show(...incident));
  on("show-all", () => show(-length * 0.01, length * 1.01));
  on("reset-filters", unfilter);
  list.addEventListener("toggle", tell);
  const keys = {
    "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), "0": () => show(...incident),
    "1": () => show(-length * 0.01, length * 1.01), ArrowLeft: () => move(-0.25), ArrowRight: () => move(0.25),
  };
  lanes.tabIndex = 0;
  lanes.addEventListener("keydown", (event) => {
    const action = keys[event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    action();
  });

  /* Drag to move; Ctrl and the wheel zoom. A drag is no click on a link. */
  const track = () => lanes.querySelector(".lane:not(.off) svg").getBoundingClientRect();
  let drag = null;
  lanes.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    const box = track();
    zoom(event.deltaY < 0 ? 0.8 : 1.25, Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1));
  }, { passive: false });
  lanes.addEventListener("pointerdown", (event) => {
    if (event.button === 0) drag = { x: event.clientX, from, to, moved: false };
  });
  addEventListener("pointermove", (event) => {
    if (!drag) return;
    const by = (event.clientX - drag.x) / track().width * (drag.to - drag.from);
    drag.moved = drag.moved || Math.abs(event.clientX - drag.x) > 4;
    if (drag.moved) show(drag.from - by, drag.to - by);
  });
  addEventListener("pointerup", () => { setTimeout(() => { drag = null; }); });
  addEventListener("pointercancel", () => { drag = null; });
  lanes.addEventListener("dragstart", (event) => event.preventDefault());
  lanes.addEventListener("click", (event) => { if (drag && drag.moved) event.preventDefault(); }, true);

  byId("controls").hidden = false;
  list.hidden = false;
  addEventListener("hashchange", follow);
  draw();
  tell();
  follow();
})();
