"use strict";
// The report of one emulated step. Everything is drawn from the object in #data (emulator/report/page.c); times are in
// picoseconds and sizes in bytes of one device. Nothing is loaded from elsewhere.
const data = JSON.parse(document.getElementById("data").textContent);
const css = getComputedStyle(document.documentElement);
const colour = name => css.getPropertyValue("--" + name).trim();
const byId = id => document.getElementById(id);
const node = (tag, attributes = {}, ...children) => {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) key === "style" ? (made.style.cssText = value) : made.setAttribute(key, value);
  made.append(...children);
  return made;
};

// ---- units

const scaled = (value, units, step) => {
  let unit = 0;
  while (Math.abs(value) >= step && unit < units.length - 1) { value /= step; unit++; }
  const digits = value === 0 || (unit === 0 && Number.isInteger(value)) ? 0 : value >= 100 ? 1 : value >= 10 ? 2 : 3;
  return value.toFixed(digits) + " " + units[unit];
};
const time = value => scaled(value, ["ps", "ns", "µs", "ms", "s"], 1000);
const bytes = value => scaled(value, ["B", "KiB", "MiB", "GiB", "TiB"], 1024);
const amount = (value, unit) => scaled(value, ["", "k", "M", "G", "T", "P"].map(prefix => prefix + unit), 1000);
const percent = value => (100 * value).toFixed(value >= 0.0995 ? 1 : 2) + " %";
const escaped = text => text.replace(/[&<>"]/g, one => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[one]);

// ---- operations

const boundNames = { matrix: "matrix units", vector: "vector unit", memory: "HBM", network: "network", host: "host", none: "control" };
const ops = data.ops.name.map((name, i) => ({
  name: data.texts[name], opcode: data.texts[data.ops.opcode[i]], source: data.texts[data.ops.source[i]], scope: data.texts[data.ops.scope[i]],
  bound: data.bounds[data.ops.bound[i]], start: data.ops.start[i], duration: data.ops.duration[i], count: data.ops.count[i],
  depth: data.ops.depth[i], flops: data.ops.flops[i], bytes: data.ops.bytes[i], children: [],
}));
const roots = [];
{
  const path = [];
  for (const op of ops) {
    while (path.length > op.depth) path.pop();
    (path.length ? path[path.length - 1].children : roots).push(op);
    op.parent = path[path.length - 1];
    path.push(op);
  }
}
const isControl = op => op.bound === "none";
const total = op => op.duration * op.count;
// How often the body of a loop runs each time that the loop does.
const trips = op => op.children.length && op.opcode === "while" ? Math.max(1, Math.round(op.children[0].count / op.count)) : 1;
const isNetwork = op => op.bound === "network" || op.bound === "host";
const describe = op => `<b>${escaped(op.name)}</b>${escaped(op.opcode)}, ${boundNames[op.bound]}\n${time(op.duration)}` +
  (op.count > 1 ? ` × ${op.count} = ${time(total(op))}` : "") + (trips(op) > 1 ? `, ${trips(op)} iterations` : "") +
  (isControl(op) ? "" : `, ${percent(total(op) / data.step)} of the step`) +
  (op.flops ? `\n${amount(op.flops, "FLOP")}, ${amount(op.flops / op.duration * 1e12, "FLOP/s")}` : "") +
  (op.bytes ? `\n${bytes(op.bytes)}, ${amount(op.bytes / op.duration * 1e12, "B/s")}` : "") +
  (op.source ? `\n${escaped(op.source)}` : "") + (op.scope ? `\n<span class="note">${escaped(op.scope)}</span>` : "");

// ---- the tooltip

const tip = byId("tip");
const showTip = (event, text) => {
  if (!text) { tip.style.display = "none"; return; }
  tip.innerHTML = text;
  tip.style.display = "block";
  const size = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - size.width - 8)) + "px";
  tip.style.top = (event.clientY + 18 + size.height > innerHeight ? event.clientY - size.height - 12 : event.clientY + 18) + "px";
};

// A canvas of this height in CSS pixels, redrawn when its width or the colour scheme changes. `draw(pen, width, height)`.
const canvasIn = (box, height, draw) => {
  const canvas = node("canvas", { height: height });
  canvas.style.height = height + "px";
  box.append(canvas);
  const redraw = () => {
    const width = canvas.clientWidth, ratio = devicePixelRatio || 1;
    if (!width) return;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    pen.font = "12px system-ui, 'DejaVu Sans', sans-serif";
    pen.textBaseline = "middle";
    draw(pen, width, height);
  };
  new ResizeObserver(redraw).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  canvas.redraw = redraw;
  canvas.addEventListener("pointerleave", event => showTip(event, ""));
  return canvas;
};
const niceStep = (span, count) => {
  const raw = span / count, power = 10 ** Math.floor(Math.log10(raw));
  return power * (raw / power > 5 ? 10 : raw / power > 2 ? 5 : raw / power > 1 ? 2 : 1);
};

// ---- header, tiles, parts

const tile = (value, label, share, bad) => {
  const made = node("div", { class: bad ? "tile bad" : "tile" }, node("b", {}, value), node("span", {}, label));
  if (share !== undefined) made.append(node("i", {}, node("u", { style: `width:${Math.min(100, 100 * share)}%` })));
  return made;
};
const drawHeader = () => {
  const memory = data.memory, fits = memory.peak <= memory.capacity;
  byId("tiles").append(
    tile(time(data.step), `${fits ? "one step" : "one step, if it fitted"}, ${data.range}`),
    tile(percent(data.mfu), "of the matrix peak", data.mfu),
    tile(percent(data.parts.exposed / data.step), "waiting for the network", data.parts.exposed / data.step),
    tile(bytes(data.sent), "sent by a device"),
    tile(bytes(memory.peak), `of ${bytes(memory.capacity)} HBM`, memory.peak / memory.capacity, !fits),
    tile(amount(data.flops, "FLOP"), "by a device"),
    tile(bytes(data.hbm), "HBM traffic"));
  if (data.basis) byId("tiles").after(node("p", { class: "note" }, `The range is based on ${data.basis}.`));
  for (const warning of data.warnings) byId("tiles").after(node("div", { class: "warning" }, warning));
  const parts = [["launch", data.parts.launch, "launch"], ["matrix", data.parts.matrix, "matrix units"], ["vector", data.parts.vector, "vector unit"],
    ["memory", data.parts.memory, "HBM"], ["network", data.parts.exposed, "waiting for the network"], ["host", data.parts.copies, "waiting for copies"]];
  const known = parts.reduce((sum, part) => sum + part[1], 0);
  parts.push(["none", Math.max(0, data.step - known), "other"]);
  for (const [name, value, label] of parts) {
    if (value / data.step < 0.0005) continue;
    const bar = node("div", { style: `flex:${value};background:var(--${name})` });
    bar.addEventListener("pointermove", event => showTip(event, `<b>${label}</b>${time(value)}, ${percent(value / data.step)} of the step`));
    bar.addEventListener("pointerleave", event => showTip(event, ""));
    byId("parts").append(bar);
    byId("parts-key").append(node("span", { style: `--c:var(--${name})` }, `${label} ${time(value)}, ${percent(value / data.step)}`));
  }
};

// ---- the timeline

const timeline = {
  from: 0, to: data.step, drawn: [], query: "", gutter: 64, row: 20, axis: 22,
  depth: Math.min(6, 1 + ops.reduce((most, op) => isNetwork(op) ? most : Math.max(most, op.depth), 0)),
};
timeline.height = timeline.axis + (timeline.depth + 1) * (timeline.row + 3) + 8;

// Calls emit(op, start, end, row) for what the view shows, iterations of loops unfolded, and emit.folded(...) for loops whose
// iterations are too narrow to see.
const walk = (list, offset, view, emit) => {
  for (const op of list) {
    const start = op.start + offset, end = start + op.duration;
    if (end >= view.from && start <= view.to && (end - start) * view.scale >= 0.15) emit(op, start, end);
    if (!op.children.length || end < view.from || start > view.to || (end - start) * view.scale < 1) continue;
    const count = trips(op), body = op.duration / count;
    if (count > 1 && body * view.scale < 5) { emit.folded(op, start, end, count); continue; }
    const first = Math.max(0, Math.floor((view.from - start) / body)), last = Math.min(count - 1, Math.floor((view.to - start) / body));
    for (let i = first; i <= last; i++) walk(op.children, offset + i * body, view, emit);
  }
};
const matches = op => !timeline.query || (op.name + " " + op.opcode + " " + op.source + " " + op.scope).toLowerCase().includes(timeline.query);
const drawTimeline = (pen, width, height) => {
  const { from, to, gutter, row, axis } = timeline, scale = (width - gutter) / (to - from), x = t => gutter + (t - from) * scale;
  timeline.scale = scale;
  timeline.drawn = [];
  pen.fillStyle = colour("page");
  pen.fillRect(0, 0, width, height);
  pen.strokeStyle = colour("line");
  pen.fillStyle = colour("faint");
  const step = niceStep(to - from, Math.max(3, (width - gutter) / 130));
  for (let t = Math.ceil(from / step) * step; t <= to; t += step) {
    pen.beginPath(); pen.moveTo(x(t), axis); pen.lineTo(x(t), height); pen.stroke();
    pen.fillText(time(t), x(t) + 3, axis / 2);
  }
  const top = line => axis + 2 + line * (row + 3);
  pen.save();
  pen.beginPath(); pen.rect(gutter, 0, width - gutter, height); pen.clip();
  const box = (op, start, end, line, label, fill) => {
    const left = Math.max(gutter - 2, x(start)), size = Math.max(0.5, Math.min(width + 2, x(end)) - left);
    pen.globalAlpha = matches(op) ? 1 : 0.18;
    pen.fillStyle = fill;
    pen.fillRect(left, top(line), size > 3 ? size - 0.6 : size, row);
    if (timeline.query && matches(op)) { pen.fillStyle = colour("mark"); pen.fillRect(left, top(line) + row - 3, size, 3); }
    timeline.drawn.push([left, top(line), size, row, op]);
    if (size > 34) {
      pen.save();
      pen.beginPath(); pen.rect(left, top(line), size - 4, row); pen.clip();
      pen.fillStyle = isControl(op) ? colour("text") : "#fff";
      pen.fillText(label, left + 4, top(line) + row / 2 + 1);
      pen.restore();
    }
    pen.globalAlpha = 1;
  };
  const line = op => isNetwork(op) ? timeline.depth : Math.min(op.depth, timeline.depth - 1);
  const emit = (op, start, end) => {
    const count = trips(op);
    box(op, start, end, line(op), count > 1 ? `${op.name} × ${count}` : op.name, colour(isControl(op) ? "line" : op.bound));
  };
  // The body as a whole: its parts side by side in one iteration, hatched.
  emit.folded = (op, start, end, count) => {
    const next = Math.min(op.depth + 1, timeline.depth - 1);
    box(op, start, end, next, `${count} iterations of ${time(op.duration / count)}: zoom in`, colour("none"));
    if (op.children.some(isNetwork)) box(op, start, end, timeline.depth, "", colour("network"));
  };
  walk(roots, 0, { from, to, scale }, emit);
  pen.restore();
  pen.fillStyle = colour("faint");
  pen.fillText("device", 6, top(0) + row / 2);
  pen.fillText("network", 6, top(timeline.depth) + row / 2);
};
const overview = {};
const drawOverview = (pen, width, height) => {
  const scale = width / data.step;
  pen.fillStyle = colour("panel");
  pen.fillRect(0, 0, width, height);
  const emit = (op, start, end) => {
    if (isControl(op)) return;
    pen.fillStyle = colour(op.bound);
    pen.fillRect(start * scale, isNetwork(op) ? height - 7 : 3, Math.max(0.4, (end - start) * scale), isNetwork(op) ? 5 : height - 12);
  };
  emit.folded = (op, start, end) => {
    pen.fillStyle = colour("none");
    pen.fillRect(start * scale, 3, (end - start) * scale, height - 12);
  };
  walk(roots, 0, { from: 0, to: data.step, scale }, emit);
  pen.strokeStyle = colour("accent");
  pen.lineWidth = 2;
  pen.strokeRect(timeline.from * scale + 1, 1, Math.max(4, (timeline.to - timeline.from) * scale - 2), height - 2);
};
const view = (from, to) => {
  const least = Math.max(1000, data.step * 1e-9), span = Math.min(data.step, Math.max(least, to - from));
  timeline.from = Math.max(0, Math.min(data.step - span, from));
  timeline.to = timeline.from + span;
  timeline.canvas.redraw();
  overview.canvas.redraw();
};
const zoom = (factor, at) => {
  const centre = at === undefined ? (timeline.from + timeline.to) / 2 : at;
  view(centre - (centre - timeline.from) * factor, centre + (timeline.to - centre) * factor);
};
const hit = event => {
  const box = timeline.canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
  return timeline.drawn.findLast(([left, top, width, height]) => x >= left - 1 && x <= left + width + 1 && y >= top && y <= top + height);
};
const timeAt = event => timeline.from + (event.clientX - timeline.canvas.getBoundingClientRect().left - timeline.gutter) / timeline.scale;
const setUpTimeline = () => {
  overview.canvas = canvasIn(byId("timeline"), 34, drawOverview);
  const canvas = timeline.canvas = canvasIn(byId("timeline"), timeline.height, drawTimeline);
  let drag = null;
  canvas.addEventListener("wheel", event => {
    if (!event.ctrlKey && !event.shiftKey && Math.abs(event.deltaX) <= Math.abs(event.deltaY) && !byId("timeline").classList.contains("on")) return;
    event.preventDefault();
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) view(timeline.from + event.deltaX / timeline.scale, timeline.to + event.deltaX / timeline.scale);
    else zoom(Math.exp(event.deltaY * 0.002), timeAt(event));
  }, { passive: false });
  canvas.addEventListener("pointerdown", event => {
    byId("timeline").classList.add("on");
    drag = { x: event.clientX, from: timeline.from, to: timeline.to };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointerup", () => { drag = null; });
  canvas.addEventListener("pointermove", event => {
    if (drag && Math.abs(event.clientX - drag.x) > 2) {
      const by = (drag.x - event.clientX) / timeline.scale;
      view(drag.from + by, drag.to + by);
      showTip(event, "");
      return;
    }
    const found = hit(event);
    showTip(event, found ? describe(found[4]) : "");
  });
  canvas.addEventListener("dblclick", event => {
    const found = hit(event);
    if (!found) return view(0, data.step);
    const start = timeline.from + (found[0] - timeline.gutter) / timeline.scale, span = found[2] / timeline.scale;
    view(start - span * 0.1, start + span * 1.1);
  });
  overview.canvas.addEventListener("pointerdown", event => {
    const box = overview.canvas.getBoundingClientRect(), at = (event.clientX - box.left) / box.width * data.step, span = timeline.to - timeline.from;
    view(at - span / 2, at + span / 2);
  });
  byId("zoom-in").onclick = () => zoom(0.4);
  byId("zoom-out").onclick = () => zoom(2.5);
  byId("zoom-all").onclick = () => view(0, data.step);
  byId("search").oninput = event => {
    timeline.query = event.target.value.trim().toLowerCase();
    const found = timeline.query ? ops.filter(op => !isControl(op) && matches(op)) : [];
    byId("found").textContent = timeline.query ? `${found.length} operations, ${time(found.reduce((sum, op) => sum + total(op), 0))}` : "";
    canvas.redraw();
  };
  byId("search").onkeydown = event => {
    if (event.key !== "Enter") return;
    const found = ops.filter(op => !isControl(op) && matches(op));
    if (!found.length) return;
    const next = found.find(op => op.start > timeline.from + (timeline.to - timeline.from) * 0.45) || found[0];
    view(next.start - next.duration * 4, next.start + next.duration * 5);
  };
  addEventListener("keydown", event => {
    if (/INPUT|SELECT/.test(event.target.tagName) || event.ctrlKey || event.metaKey) return;
    const span = timeline.to - timeline.from, moves = { w: () => zoom(0.6), s: () => zoom(1.7), a: () => view(timeline.from - span / 5, timeline.to - span / 5),
      d: () => view(timeline.from + span / 5, timeline.to + span / 5), "0": () => view(0, data.step) };
    if (moves[event.key]) moves[event.key]();
  });
};

// ---- tables

// A table with sortable columns: [title, value(row), text(row, value), class]. Sorted by the column `by`, descending.
const table = (box, columns, rows, by, most, pick) => {
  let sort = by, down = true, limit = most;
  const render = () => {
    const key = columns[sort][1], order = [...rows].sort((a, b) => {
      const left = key(a), right = key(b), less = typeof left === "string" ? left.localeCompare(right) : left - right;
      return down ? -less : less;
    });
    const head = node("tr", {}, ...columns.map(([title, , , kind], i) => {
      const cell = node("th", { class: kind || "", scope: "col", ...(i === sort ? { "aria-sort": down ? "descending" : "ascending" } : {}) }, title);
      cell.onclick = () => { down = i === sort ? !down : typeof rows[0]?.[0] !== "string"; sort = i; render(); };
      return cell;
    }));
    const body = order.slice(0, limit).map(row => {
      const line = node("tr", pick ? { class: "pick" } : {}, ...columns.map(([, value, text, kind]) => {
        const cell = node("td", { class: kind || "" }), shown = text ? text(row, value(row)) : String(value(row));
        cell.append(shown);
        return cell;
      }));
      if (pick) line.onclick = () => pick(row);
      return line;
    });
    box.replaceChildren(node("div", { class: "scroll" }, node("table", {}, node("thead", {}, head), node("tbody", {}, ...body))));
    if (order.length > limit) {
      const more = node("button", {}, `show all ${order.length}`);
      more.onclick = () => { limit = Infinity; render(); };
      box.append(node("p", {}, more));
    }
  };
  render();
};
const withShare = value => {
  const cell = node("span", {}, percent(value));
  cell.append(node("span", { class: "share" }, node("u", { style: `width:${Math.min(100, value * 100)}%` })));
  return cell;
};
const keys = {
  opcode: op => op.opcode,
  bound: op => boundNames[op.bound],
  name: op => op.name,
  source: op => op.source || "unknown",
  scope: op => op.scope.split("/").slice(0, -1).join("/") || "unknown",
};
const drawProfile = () => {
  const by = byId("group").value, filter = byId("filter").value.trim().toLowerCase(), groups = new Map();
  for (const op of ops) {
    if (isControl(op) || (filter && !(op.name + " " + op.opcode + " " + op.source + " " + op.scope).toLowerCase().includes(filter))) continue;
    const key = keys[by](op), group = groups.get(key) || { key, time: 0, count: 0, flops: 0, bytes: 0, one: op };
    group.time += total(op); group.count += op.count; group.flops += op.flops * op.count; group.bytes += op.bytes * op.count;
    groups.set(key, group);
  }
  const rows = [...groups.values()];
  if (!rows.length) { byId("profile").replaceChildren(node("p", { class: "note" }, "nothing matches")); return; }
  table(byId("profile"), [
    [{ opcode: "opcode", bound: "unit", name: "operation", source: "source line", scope: "scope" }[by], row => row.key, null, "t"],
    ["time", row => row.time, (row, value) => time(value), "n"],
    ["share of the step", row => row.time / data.step, (row, value) => withShare(value), "n"],
    ["runs", row => row.count, null, "n"],
    ["each", row => row.time / row.count, (row, value) => time(value), "n"],
    ["FLOP", row => row.flops, (row, value) => value ? amount(value, "") : "", "n"],
    ["FLOP/s", row => row.flops / row.time * 1e12, (row, value) => value ? amount(value, "") : "", "n"],
    ["bytes", row => row.bytes, (row, value) => value ? bytes(value) : "", "n"],
  ], rows, 1, 15, row => {
    byId("search").value = by === "bound" ? "" : row.key === "unknown" ? "" : row.key;
    byId("search").dispatchEvent(new Event("input"));
    if (by === "name") view(row.one.start - row.one.duration * 4, row.one.start + row.one.duration * 5);
    byId("timeline-part").scrollIntoView({ behavior: "smooth" });
  });
};
const drawCollectives = () => {
  const groups = new Map();
  for (const op of ops) {
    if (op.bound !== "network") continue;
    const key = op.opcode.replace(/-start$/, ""), group = groups.get(key) || { key, time: 0, count: 0, bytes: 0 };
    group.time += total(op); group.count += op.count; group.bytes += op.bytes * op.count;
    groups.set(key, group);
  }
  const rows = [...groups.values()];
  if (!rows.length) { byId("collectives").append(node("p", { class: "note" }, "The program does not communicate.")); return; }
  const all = rows.reduce((sum, row) => sum + row.time, 0);
  byId("collectives-note").textContent = `${time(all)} of network time, of which the device waits for ${time(data.parts.exposed)}.`;
  table(byId("collectives"), [
    ["collective", row => row.key, null, "t"], ["time", row => row.time, (row, value) => time(value), "n"],
    ["share of network time", row => row.time / all, (row, value) => withShare(value), "n"], ["runs", row => row.count, null, "n"],
    ["sent by a device", row => row.bytes, (row, value) => bytes(value), "n"],
    ["rate", row => row.bytes / row.time * 1e12, (row, value) => amount(value, "B/s"), "n"],
  ], rows, 1, 20);
};
const drawBuffers = () => table(byId("buffers"), [
  ["buffer", row => row.name, null, "t"], ["kind", row => row.kind], ["shape", row => row.shape, null, "t"],
  ["size", row => row.bytes, (row, value) => bytes(value), "n"],
  ["padding", row => row.bytes - row.unpadded, (row, value) => value > 0 ? bytes(value) : "", "n"],
  ["of capacity", row => row.bytes / data.memory.capacity, (row, value) => withShare(value), "n"],
  ["whose", row => row.scope || row.source, null, "t"],
], data.buffers, 3, 15);

// ---- the roofline

const drawRoofline = () => {
  const groups = new Map();
  for (const op of ops) {
    if (isControl(op) || isNetwork(op) || !op.flops || !op.bytes) continue;
    const group = groups.get(op.name) || { op, time: 0 };
    group.time += total(op);
    groups.set(op.name, group);
  }
  const points = [...groups.values()].sort((a, b) => b.time - a.time).map(({ op, time: all }) => ({ op, all, x: op.flops / op.bytes, y: op.flops / op.duration * 1e12 }));
  if (!points.length) { byId("roofline").append(node("p", { class: "note" }, "No kernel has both arithmetic and memory traffic.")); return; }
  const peak = data.peaks.matrix, rate = data.peaks.hbm, ridge = peak / rate;
  // Kernels with hardly any arithmetic are drawn at the left edge.
  const lowX = 1e-2, highX = Math.max(ridge * 20, ...points.map(point => point.x * 2)), lowY = peak * 1e-6, highY = peak * 2;
  let drawn = [];
  const canvas = canvasIn(byId("roofline"), 340, (pen, width, height) => {
    const left = 62, bottom = height - 30, x = value => left + Math.log(Math.max(1, value / lowX)) / Math.log(highX / lowX) * (width - left - 12);
    const y = value => bottom - Math.log(Math.max(1, value / lowY)) / Math.log(highY / lowY) * (bottom - 12);
    pen.fillStyle = colour("page"); pen.fillRect(0, 0, width, height);
    pen.strokeStyle = colour("line"); pen.fillStyle = colour("faint");
    for (let power = Math.ceil(Math.log10(lowX)); 10 ** power <= highX; power++) {
      pen.beginPath(); pen.moveTo(x(10 ** power), 8); pen.lineTo(x(10 ** power), bottom); pen.stroke();
      pen.textAlign = "center"; pen.fillText(power < 0 ? (10 ** power).toFixed(-power) : amount(10 ** power, "").replace(".000", ""), x(10 ** power), bottom + 11);
    }
    pen.textAlign = "right";
    for (let power = Math.ceil(Math.log10(lowY)); 10 ** power <= highY; power++) {
      pen.beginPath(); pen.moveTo(left, y(10 ** power)); pen.lineTo(width - 12, y(10 ** power)); pen.stroke();
      if (power % 2 === 0) pen.fillText(amount(10 ** power, "").replace(/\.0+ /, " "), left - 6, y(10 ** power));
    }
    pen.textAlign = "left";
    pen.fillText("FLOP/s", 4, 12); pen.textAlign = "right"; pen.fillText("FLOP per byte of HBM traffic", width - 12, height - 6); pen.textAlign = "left";
    pen.strokeStyle = colour("text"); pen.lineWidth = 1.5;
    pen.beginPath(); pen.moveTo(x(lowX), y(Math.max(lowY, lowX * rate))); pen.lineTo(x(ridge), y(peak)); pen.lineTo(width - 12, y(peak)); pen.stroke();
    pen.lineWidth = 1; pen.fillStyle = colour("text");
    pen.fillText(`${amount(peak, "FLOP/s")} bf16`, Math.min(x(ridge) + 8, width - 150), y(peak) - 9);
    pen.save(); pen.translate(x(Math.sqrt(lowX * ridge)), y(Math.sqrt(lowX * ridge) * rate) - 10);
    pen.rotate(-Math.atan2(y(lowX * rate) - y(peak), x(ridge) - x(lowX))); pen.fillText(`HBM ${amount(rate, "B/s")}`, -40, 0); pen.restore();
    drawn = points.slice(0, 2000).map(point => ({ point, px: x(point.x), py: y(point.y), radius: 3 + 12 * Math.sqrt(point.all / data.step) }));
    for (const { point, px, py, radius } of drawn) {
      pen.globalAlpha = 0.75; pen.fillStyle = colour(point.op.bound);
      pen.beginPath(); pen.arc(px, py, radius, 0, 7); pen.fill(); pen.globalAlpha = 1;
    }
  });
  canvas.addEventListener("pointermove", event => {
    const box = canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    const near = drawn.filter(one => Math.hypot(one.px - x, one.py - y) <= one.radius + 3).sort((a, b) => a.radius - b.radius)[0];
    showTip(event, near ? describe(near.point.op) + `\n${near.point.x.toFixed(2)} FLOP per byte` : "");
  });
};

// ---- memory over time

const drawMemory = () => {
  const { start, bytes: held } = data.curve, { peak, capacity } = data.memory, top = Math.max(peak, capacity) * 1.06;
  const at = t => { let low = 0, high = start.length; while (high - low > 1) { const middle = (low + high) >> 1; start[middle] <= t ? (low = middle) : (high = middle); } return low; };
  let pointer = null;
  const canvas = canvasIn(byId("memory"), 220, (pen, width, height) => {
    const left = 70, bottom = height - 22, x = t => left + t / data.step * (width - left - 8), y = value => bottom - value / top * (bottom - 8);
    pen.fillStyle = colour("page"); pen.fillRect(0, 0, width, height);
    const step = 2 ** Math.ceil(Math.log2(top / 5));
    pen.strokeStyle = colour("line"); pen.fillStyle = colour("faint"); pen.textAlign = "right";
    for (let value = 0; value <= top; value += step) {
      pen.beginPath(); pen.moveTo(left, y(value)); pen.lineTo(width - 8, y(value)); pen.stroke();
      pen.fillText(bytes(value).replace(/\.0+ /, " "), left - 6, y(value));
    }
    pen.textAlign = "left";
    const ticks = niceStep(data.step, Math.max(2, width / 160));
    for (let t = 0; x(t) + 60 < width; t += ticks) pen.fillText(time(t), x(t), bottom + 12);
    pen.beginPath(); pen.moveTo(x(0), bottom);
    start.forEach((t, i) => { pen.lineTo(x(i ? t : 0), y(held[Math.max(0, i - 1)])); pen.lineTo(x(i ? t : 0), y(held[i])); });
    pen.lineTo(x(data.step), y(held[held.length - 1] || 0)); pen.lineTo(x(data.step), bottom); pen.closePath();
    pen.fillStyle = colour("accent"); pen.globalAlpha = 0.25; pen.fill(); pen.globalAlpha = 1;
    pen.strokeStyle = colour("accent"); pen.stroke();
    pen.strokeStyle = colour("bad"); pen.setLineDash([6, 4]);
    pen.beginPath(); pen.moveTo(left, y(capacity)); pen.lineTo(width - 8, y(capacity)); pen.stroke(); pen.setLineDash([]);
    pen.fillStyle = colour("bad"); pen.fillText(`capacity ${bytes(capacity)}`, left + 6, y(capacity) + (y(capacity) < 20 ? 10 : -8));
    if (pointer !== null) { pen.strokeStyle = colour("text"); pen.beginPath(); pen.moveTo(x(pointer), 8); pen.lineTo(x(pointer), bottom); pen.stroke(); }
  });
  canvas.addEventListener("pointermove", event => {
    const box = canvas.getBoundingClientRect();
    pointer = Math.max(0, Math.min(data.step, (event.clientX - box.left - 70) / (box.width - 78) * data.step));
    canvas.redraw();
    if (!start.length) return;
    const busy = roots.filter(op => !isNetwork(op) && op.start <= pointer && op.start + op.duration >= pointer)[0];
    showTip(event, `<b>${bytes(held[at(pointer)])}</b>at ${time(pointer)}${busy ? `\nwhile ${escaped(busy.name)} runs` : ""}`);
  });
  const parts = data.memory;
  byId("memory-key").textContent = `arguments ${bytes(parts.arguments)}, results ${bytes(parts.outputs)}, of them in the arguments' memory ${bytes(parts.aliased)}, ` +
    `temporaries ${bytes(parts.temporaries)}; reserved by the chip's software ${bytes(parts.reserved)}. A loop counts with its peak.`;
};

// ---- links

// From pairs [value, times] to values.
const expand = runs => { const out = []; for (let i = 0; i < runs.length; i += 2) for (let j = 0; j < runs[i + 1]; j++) out.push(runs[i]); return out; };
// Blue over yellow to red.
const heat = share => {
  const stops = [[79, 155, 217], [232, 190, 70], [205, 45, 45]], at = Math.min(1, Math.max(0, share)) * 2, low = Math.min(1, Math.floor(at));
  return `rgb(${stops[low].map((value, i) => Math.round(value + (stops[low + 1][i] - value) * (at - low))).join(" ")})`;
};
const drawLinks = () => {
  const { shape, loads, directions, slices } = data.links;
  if (!loads.length) { byId("links").append(node("p", { class: "note" }, "No link carries anything.")); return; }
  const carried = directions.map(expand);
  const busiest = Math.max(...loads.map(load => load.busy)) / data.step;
  byId("links-note").textContent = `${data.links.count} links carry ${bytes(data.links.bytes)}; the busiest is busy for ${percent(busiest)} of the step.` + (slices > 1 ? ` The first of ${slices} slices is drawn.` : "");
  byId("links-scale").append(node("span", { class: "note" }, "busy 0 %"),
    node("span", { style: `width:200px;height:12px;border-radius:3px;background:linear-gradient(90deg, ${heat(0)}, ${heat(0.5)}, ${heat(1)})` }),
    node("span", { class: "note" }, percent(busiest)));
  const planes = shape[2], across = Math.min(planes, 4), axes = ["x", "y", "z"];
  const box = byId("links"), rows = Math.ceil(planes / across);
  let drawn = [];
  const layout = width => {
    const cell = Math.max(5, Math.min(46, (width - 24 * across - 12) / across / Math.max(shape[0], 1)));
    return { cell, height: rows * (shape[1] * cell + 34) + 8 };
  };
  const height = layout(box.clientWidth || 900).height;
  const canvas = canvasIn(box, Math.min(height, 6000), (pen, width) => {
    const { cell } = layout(width);
    drawn = [];
    pen.fillStyle = colour("page"); pen.fillRect(0, 0, width, height);
    for (let z = 0; z < planes; z++) {
      const left = 12 + (z % across) * (shape[0] * cell + 24), top = 24 + Math.floor(z / across) * (shape[1] * cell + 34);
      if (planes > 1) { pen.fillStyle = colour("faint"); pen.fillText(`z = ${z}`, left, top - 12); }
      for (let y = 0; y < shape[1]; y++) for (let x = 0; x < shape[0]; x++) {
        const chip = x + shape[0] * (y + shape[1] * z), cx = left + (x + 0.5) * cell, cy = top + (y + 0.5) * cell;
        for (let direction = 0; direction < 6; direction++) {
          const load = carried[direction] && carried[direction][chip];
          if (load === undefined || load < 0) continue;
          const use = loads[load], axis = direction >> 1, up = direction % 2 === 0 ? 1 : -1, gap = cell * 0.09;
          // Half of the way to the neighbour, the two directions side by side; z as a short diagonal.
          const dx = axis === 0 ? up * cell / 2 : axis === 2 ? up * cell * 0.28 : 0, dy = axis === 1 ? up * cell / 2 : axis === 2 ? -up * cell * 0.28 : 0;
          const ox = axis === 1 ? up * gap : 0, oy = axis === 0 ? up * gap : 0;
          pen.strokeStyle = heat(busiest ? use.busy / data.step / busiest : 0); pen.lineWidth = Math.max(1, cell * 0.1);
          pen.beginPath(); pen.moveTo(cx + ox, cy + oy); pen.lineTo(cx + dx + ox, cy + dy + oy); pen.stroke();
          drawn.push([cx + dx * 0.6 + ox, cy + dy * 0.6 + oy, `<b>chip (${x}, ${y}, ${z}) to ${up > 0 ? "+" : "−"}${axes[axis]}</b>${bytes(use.bytes)}, busy for ${percent(use.busy / data.step)} of the step`]);
        }
        pen.fillStyle = colour("faint"); pen.beginPath(); pen.arc(cx, cy, Math.max(1.2, cell * 0.12), 0, 7); pen.fill();
      }
    }
    pen.lineWidth = 1;
  });
  canvas.addEventListener("pointermove", event => {
    const place = canvas.getBoundingClientRect(), x = event.clientX - place.left, y = event.clientY - place.top;
    let near = null, distance = 14;
    for (const one of drawn) { const d = Math.hypot(one[0] - x, one[1] - y); if (d < distance) { distance = d; near = one; } }
    showTip(event, near ? near[2] : "");
  });
  for (const [name, use] of [["between the devices of a chip", data.links.package], ["between slices, of a host", data.links.dcn]])
    if (use) box.append(node("p", { class: "note" }, `Links ${name}: ${use.count} carry up to ${bytes(use.bytes)} each, busy for up to ${percent(use.busy / data.step)} of the step.`));
};

drawHeader();
setUpTimeline();
byId("group").onchange = byId("filter").oninput = drawProfile;
drawProfile();
drawCollectives();
drawRoofline();
drawMemory();
drawBuffers();
drawLinks();
