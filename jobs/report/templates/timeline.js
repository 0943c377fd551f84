/* The timeline: zoom, move, filter, search, details of a mark, links. The page is complete without this script. It adds no markup from
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
  const addCopyButtons = (within) => {
    for (const code of within.querySelectorAll("code.copy:not(.has-button)")) {
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
  };
  document.addEventListener("toggle", (event) => { if (event.target.open) addCopyButtons(event.target); }, true);

  const lanes = byId("lanes");
  if (!lanes) { addEventListener("hashchange", reveal); reveal(); return; }
  const WIDTH = 1000, SHORTEST_MS = 20, NEAR_PX = 6;
  const number = (name) => Number(lanes.dataset[name]);
  const first = number("first"), length = Math.max(number("last") - first, SHORTEST_MS);
  const incident = [number("from") - first, number("to") - first];
  const context = new Set(["broker", "controller", "captured"]);
  /* The texts leave the drawing: the panel shows them, and no tooltip does it a second time. */
  const textOf = (rect) => { const text = rect.textContent; rect.replaceChildren(); return text; };
  const rows = [...lanes.querySelectorAll(".lane")].map((lane) => ({
    lane,
    marks: [...lane.querySelectorAll("rect")].map((rect) => ({
      rect, kind: rect.dataset.k, topic: rect.dataset.t, verdict: rect.dataset.v,
      brokers: (rect.dataset.b || "").split(" "), start: Number(rect.dataset.s), end: Number(rect.dataset.e),
      text: textOf(rect), href: rect.parentNode.getAttribute("href"), shown: true,
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

  const inView = () => marks.filter((mark) => mark.shown && mark.end >= from && mark.start <= to);
  const tell = () => {
    const found = inView().filter((mark) => !context.has(mark.kind) && mark.kind !== "state");
    byId("matches").textContent = `${found.length} findings and elections in view`;
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

  /* The details panel: what is known of the chosen mark. The address names the mark, so it can be sent as a link. */
  const panel = byId("chosen"), known = byId("known");
  let chosen = null;
  const add = (parent, tag, text = "", attributes = {}) => {
    const made = parent.appendChild(document.createElement(tag));
    made.textContent = text;
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    return made;
  };
  const describe = (mark) => {
    const [name, ...facts] = mark.text.split("\n");
    const place = mark.href && byId(mark.href.slice(1));
    known.replaceChildren();
    const title = add(known, "p", `${name} `, { class: "chosen-name" });
    const nature = mark.rect.dataset.n || "fact";
    add(title, "span", nature, { class: `tag ${nature}` });
    const list = add(known, "dl");
    for (const fact of facts) {
      const colon = fact.indexOf(": ");
      const line = add(list, "div", "", fact.length > 60 ? { class: "long" } : {});
      add(line, "dt", fact.slice(0, colon));
      add(line, "dd", fact.slice(colon + 2));
    }
    const links = add(known, "p", "", { class: "chosen-links" });
    const evidence = place && `e${mark.href.slice(2)}`;
    const section = { broker: "All of this broker", captured: "All files", state: "The window of this state",
      election: "The window of this election" }[mark.kind] || "The whole finding";
    if (place) add(links, "a", section, { href: mark.href });
    if (evidence && byId(evidence)) add(links, "a", "Its evidence, with files and bytes", { href: `#${evidence}` });
    const explain = mark.verdict && place && place.querySelector("code.copy");
    const record = mark.rect.dataset.o && lanes.dataset.record.replace("OFFSET", mark.rect.dataset.o);
    const command = explain ? explain.textContent : record;
    if (command) {
      const line = add(known, "p", `${explain ? "Explain it" : "Its record, with file and byte"}: `);
      add(line, "code", command, { class: "copy" });
      addCopyButtons(known);
    }
    const causes = mark.verdict && place && place.querySelector(".causes ol");
    if (causes) known.append(causes.cloneNode(true));
  };
  const choose = (mark, moves = true) => {
    if (chosen) chosen.rect.classList.remove("marked");
    chosen = mark;
    panel.hidden = !mark;
    const address = mark ? `#${mark.rect.id || `m${marks.indexOf(mark)}`}` : location.href.split("#")[0];
    history.replaceState(null, "", address);
    if (!mark) return;
    mark.rect.classList.add("marked");
    describe(mark);
    if (mark.end < from || mark.start > to) {
      const around = Math.max(mark.end - mark.start, 1000);
      show(mark.start - around, mark.end + around);
    }
    if (moves) mark.rect.closest(".lane").scrollIntoView({ block: "nearest" });
  };
  const shownIn = (row) => row.marks.filter((mark) => mark.shown).sort((a, b) => a.start - b.start || a.end - b.end);
  const rowOf = (mark) => rows.findIndex((row) => row.marks.includes(mark));
  const step = (by) => {
    const order = shownIn(rows[rowOf(chosen)]);
    choose(order[order.indexOf(chosen) + by] || chosen);
  };
  /* To the mark of the next lane that is nearest in time. */
  const hop = (by) => {
    const away = (mark) => Math.max(mark.start - chosen.start, chosen.start - mark.end, 0);
    for (let at = rowOf(chosen) + by; rows[at]; at += by) {
      const [nearest] = shownIn(rows[at]).sort((a, b) => away(a) - away(b));
      if (nearest) return choose(nearest);
    }
  };
  const close = () => { choose(null); lanes.focus({ preventScroll: true }); };
  const chooseFirst = () => {
    const found = inView().filter((mark) => !context.has(mark.kind));
    const first = found.find((mark) => mark.verdict === "proven") || found[0] || inView()[0];
    if (first) choose(first);
  };
  /* The mark under the pointer; a line or dot is hit from some pixels away. */
  const markAt = (event) => {
    const lane = event.target.closest(".lane"), row = lane && rows.find((each) => each.lane === lane);
    if (!row) return null;
    const box = lane.querySelector("svg").getBoundingClientRect(), scale = box.width / (to - from);
    const away = (mark) => Math.abs((mark.start + mark.end) / 2 - (from + (event.clientX - box.left) / scale)) * scale;
    const small = row.marks.filter((mark) => mark.shown && (mark.end - mark.start) * scale < NEAR_PX && away(mark) < NEAR_PX);
    return small.sort((a, b) => away(a) - away(b))[0] || row.marks.find((mark) => mark.rect === event.target);
  };

  const follow = () => {
    const id = decodeURIComponent(location.hash.slice(1));
    const mark = /^m\d+$/.test(id) ? marks[Number(id.slice(1))] : marks.find((each) => id && each.rect.id === id);
    if (!mark) return reveal();
    if (!mark.shown) unfilter();
    choose(mark);
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
  on("before", () => step(-1));
  on("after", () => step(1));
  on("close", close);
  byId("filter-text").addEventListener("keydown", (event) => { if (event.key === "Enter") chooseFirst(); });
  const keys = {
    "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), "0": () => show(...incident),
    "1": () => show(-length * 0.01, length * 1.01), ArrowLeft: () => move(-0.25), ArrowRight: () => move(0.25),
    Enter: chooseFirst,
  };
  const keysOfChosen = {
    ArrowLeft: () => step(-1), ArrowRight: () => step(1), ArrowUp: () => hop(-1), ArrowDown: () => hop(1),
    Enter: () => (known.querySelector("a") || byId("close")).focus(),
  };
  lanes.tabIndex = 0;
  lanes.addEventListener("keydown", (event) => {
    const action = (chosen && keysOfChosen[event.key]) || keys[event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    action();
  });

  byId("timeline").addEventListener("keydown", (event) => { if (chosen && event.key === "Escape") close(); });

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
  lanes.addEventListener("click", (event) => {
    const mark = drag && drag.moved ? null : markAt(event);
    event.preventDefault();
    if (mark) choose(mark, false);
  });

  for (const each of document.querySelectorAll("#controls, .with-script")) each.hidden = false;
  addEventListener("hashchange", follow);
  draw();
  tell();
  follow();
})();
