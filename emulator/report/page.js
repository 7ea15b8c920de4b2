// The report of one emulated step, drawn from the object in #data (emulator/report/page_data.c). What it shares with the
// comparison of several is in base.js.
const data = JSON.parse(document.getElementById("data").textContent);
const { ops, roots } = readOps(data);

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
    tile(percent(data.mfu), !data.scopes ? "HFU, hardware FLOP utilisation" : data.hfu > data.mfu ?
      `MFU; ${percent(data.hfu)} with recomputation (HFU)` : "MFU, model FLOP utilisation", data.mfu),
    tile(percent(data.parts.exposed / data.step), "waiting for the network", data.parts.exposed / data.step),
    tile(bytes(data.sent), "sent by a device"),
    tile(bytes(memory.peak), `of ${bytes(memory.capacity)} HBM`, memory.peak / memory.capacity, !fits),
    tile(amount(data.flops, "FLOP"), "by a device"),
    tile(bytes(data.hbm), "HBM traffic"));
  if (data.basis) byId("tiles").after(node("p", { class: "note" }, `The range is that of published measurements: ${data.basis}.`));
  for (const warning of data.warnings) byId("tiles").after(node("div", { class: "warning" }, warning));
  const parts = [["launch", data.parts.launch, "launch"], ["matrix", data.parts.matrix, "matrix units"], ["vector", data.parts.vector, "vector unit"],
    ["memory", data.parts.memory, "HBM"], ["network", data.parts.exposed, "waiting for the network"], ["host", data.parts.copies, "waiting for copies"]];
  const known = parts.reduce((sum, part) => sum + part[1], 0);
  parts.push(["none", Math.max(0, data.step - known), "other"]);
  for (const [name, value, label] of parts) {
    if (value / data.step < 0.0005) continue;
    const bar = node("div", { style: `flex:${value};background:var(--${name})` });
    hover(bar, () => `<b>${label}</b>${time(value)}, ${percent(value / data.step)} of the step`);
    byId("parts").append(bar);
    byId("parts-key").append(node("span", { style: `--c:var(--${name})` }, `${label} ${time(value)}, ${percent(value / data.step)}`));
  }
};

// ---- the timeline

const timeline = {
  from: 0, to: data.step, drawn: [], query: "", match: -1, gutter: 64, row: 20, axis: 22,
  depth: Math.min(6, 1 + ops.reduce((most, op) => isNetwork(op) ? most : Math.max(most, op.depth), 0)),
};
timeline.gap = 18;  // between the rows of the device and that of the network, for the flows
timeline.height = timeline.axis + (timeline.depth + 1) * (timeline.row + 3) + timeline.gap + 8;

const matches = op => !timeline.query || (op.name + " " + op.opcode + " " + op.source + " " + op.scope).toLowerCase().includes(timeline.query);
const drawTimeline = (pen, width, height) => {
  const { from, to, gutter, row, axis } = timeline, scale = (width - gutter) / (to - from), x = t => gutter + (t - from) * scale;
  timeline.scale = scale;
  timeline.drawn = [];
  pen.fillStyle = colour("page");
  pen.fillRect(0, 0, width, height);
  pen.strokeStyle = colour("line");
  pen.fillStyle = colour("faint");
  const step = niceStep(to - from, Math.max(4, (width - gutter) / 130));
  for (let t = Math.ceil(from / step) * step; t <= to; t += step) {
    pen.beginPath(); pen.moveTo(x(t), axis); pen.lineTo(x(t), height); pen.stroke();
    const label = tick(t);
    if (x(t) + 6 + pen.measureText(label).width <= width) pen.fillText(label, x(t) + 3, axis / 2);
  }
  const top = line => axis + 2 + line * (row + 3) + (line === timeline.depth ? timeline.gap : 0);
  pen.save();
  pen.beginPath(); pen.rect(gutter, 0, width - gutter, height); pen.clip();
  const box = (op, start, end, line, label, light, fill) => {
    const left = Math.max(gutter - 2, x(start)), size = Math.max(0.5, Math.min(width + 2, x(end)) - left);
    pen.globalAlpha = matches(op) ? 1 : 0.18;
    fill(left, top(line), size > 3 ? size - 0.6 : size);
    if (timeline.query && matches(op)) { pen.fillStyle = colour("mark"); pen.fillRect(left, top(line) + row - 3, size, 3); }
    timeline.drawn.push([left, top(line), size, row, op]);
    if (size > 34) {
      pen.save();
      pen.beginPath(); pen.rect(left, top(line), size - 4, row); pen.clip();
      pen.fillStyle = colour(light ? "text" : "page");
      pen.fillText(label, left + 4, top(line) + row / 2 + 1);
      pen.restore();
    }
    pen.globalAlpha = 1;
  };
  const plain = name => (left, top, size) => { pen.fillStyle = colour(name); pen.fillRect(left, top, size, row); };
  const line = op => isNetwork(op) ? timeline.depth : Math.min(op.depth, timeline.depth - 1);
  // From where the device asks for a transfer to the transfer, and on to where the device waits for it.
  const flows = [];
  const arrow = (fromX, fromY, toX, toY) => {
    const middle = (fromY + toY) / 2, down = Math.sign(toY - fromY);
    pen.beginPath(); pen.moveTo(fromX, fromY); pen.bezierCurveTo(fromX, middle, toX, middle, toX, toY);
    pen.moveTo(toX - 3, toY - 4 * down); pen.lineTo(toX, toY); pen.lineTo(toX + 3, toY - 4 * down); pen.stroke();
  };
  const drawFlows = () => {
    const device = top(timeline.depth - 1) + row, network = top(timeline.depth);
    pen.strokeStyle = colour("text");
    pen.globalAlpha = 0.6;
    for (const [op, shift] of flows) {
      if (!matches(op)) continue;
      arrow(x(op.issued + shift), device, x(op.start + shift) + 1, network);
      if (op.awaited >= 0) arrow(x(op.start + op.duration + shift) - 1, network, x(op.awaited + shift), device);
    }
    pen.globalAlpha = 1;
  };
  const emit = (op, start, end) => {
    const count = trips(op);
    if (op.issued !== undefined && (end - start) * scale >= 6) flows.push([op, start - op.start]);
    box(op, start, end, line(op), count > 1 ? `${op.name} × ${count}` : op.name, isControl(op), plain(isControl(op) ? "line" : op.bound));
  };
  // Iterations that are too narrow: the shares of their kernels, as bands.
  emit.folded = (op, start, end, count) => {
    const next = Math.min(op.depth + 1, timeline.depth - 1);
    box(op, start, end, next, `${count} iterations of ${time(op.duration / count)}: zoom in`, false, (left, top, size) =>
      bands(op, (bound, from, to) => { pen.fillStyle = colour(bound); pen.fillRect(left, top + row * from, size, row * (to - from)); }));
    if (op.children.some(isNetwork)) box(op, start, end, timeline.depth, "", false, plain("network"));
  };
  walk(roots, 0, { from, to, scale }, emit);
  drawFlows();
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
    const tall = height - 12, size = (end - start) * scale;
    bands(op, (bound, from, to) => { pen.fillStyle = colour(bound); pen.fillRect(start * scale, 3 + tall * from, size, tall * (to - from)); });
    if (op.children.some(isNetwork)) { pen.fillStyle = colour("network"); pen.fillRect(start * scale, height - 7, size, 5); }
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
// Shows one operation with what is around it.
const viewOf = op => {
  const around = Math.min(4 * op.duration, data.step / 20);
  view(op.start - around, op.start + op.duration + around);
};
const hit = event => {
  const box = timeline.canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
  return timeline.drawn.findLast(([left, top, width, height]) => x >= left - 1 && x <= left + width + 1 && y >= top && y <= top + height);
};
const tipAt = event => {
  const found = hit(event);
  return found ? describe(found[4]) : "";
};
const timeAt = event => timeline.from + (event.clientX - timeline.canvas.getBoundingClientRect().left - timeline.gutter) / timeline.scale;
const setUpTimeline = () => {
  overview.canvas = canvasIn(byId("timeline"), 34, drawOverview);
  const canvas = timeline.canvas = canvasIn(byId("timeline"), timeline.height, drawTimeline);
  let drag = null, pinch = null;
  const fingers = new Map();
  canvas.addEventListener("wheel", event => {
    if (!event.ctrlKey && !event.shiftKey && Math.abs(event.deltaX) <= Math.abs(event.deltaY) && !byId("timeline").classList.contains("on")) return;
    event.preventDefault();
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) view(timeline.from + event.deltaX / timeline.scale, timeline.to + event.deltaX / timeline.scale);
    else zoom(Math.exp(event.deltaY * 0.002), timeAt(event));
  }, { passive: false });
  canvas.addEventListener("pointerdown", event => {
    byId("timeline").classList.add("on");
    fingers.set(event.pointerId, event);
    pinch = null;
    drag = { x: event.clientX, from: timeline.from, to: timeline.to };
    canvas.setPointerCapture(event.pointerId);
  });
  for (const end of ["pointerup", "pointercancel"])
    canvas.addEventListener(end, event => { drag = pinch = null; fingers.delete(event.pointerId); });
  canvas.addEventListener("pointermove", event => {
    if (fingers.has(event.pointerId)) fingers.set(event.pointerId, event);
    if (fingers.size === 2) {
      const [a, b] = fingers.values(), apart = Math.max(1, Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY));
      if (pinch) zoom(pinch / apart, timeAt({ clientX: (a.clientX + b.clientX) / 2 }));
      pinch = apart;
      return;
    }
    if (drag && Math.abs(event.clientX - drag.x) > 2) {
      const by = (drag.x - event.clientX) / timeline.scale;
      view(drag.from + by, drag.to + by);
      showTip(event, "");
      return;
    }
    showTip(event, tipAt(event));
  });
  canvas.addEventListener("click", event => showTip(event, tipAt(event)));
  canvas.addEventListener("pointerleave", event => showTip(event, ""));
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
    timeline.match = -1;
    const found = timeline.query ? ops.filter(op => !isControl(op) && matches(op)) : [];
    byId("found").textContent = timeline.query ? `${found.length} operations, ${time(found.reduce((sum, op) => sum + total(op), 0))}` : "";
    canvas.redraw();
  };
  byId("search").onkeydown = event => {
    if (event.key !== "Enter") return;
    const found = ops.filter(op => !isControl(op) && matches(op));
    if (!found.length) return;
    timeline.match = (timeline.match + 1) % found.length;
    viewOf(found[timeline.match]);
  };
  addEventListener("keydown", event => {
    if (/INPUT|SELECT/.test(event.target.tagName) || event.ctrlKey || event.metaKey) return;
    const span = timeline.to - timeline.from, moves = { w: () => zoom(0.6), s: () => zoom(1.7), a: () => view(timeline.from - span / 5, timeline.to - span / 5),
      d: () => view(timeline.from + span / 5, timeline.to + span / 5), "0": () => view(0, data.step) };
    if (moves[event.key]) moves[event.key]();
  });
};

// ---- tables

const drawProfile = () => {
  const by = byId("group").value, filter = byId("filter").value.trim().toLowerCase(), groups = new Map();
  for (const op of ops) {
    if (isControl(op) || (filter && !(op.name + " " + op.opcode + " " + op.source + " " + op.scope).toLowerCase().includes(filter))) continue;
    const key = keys[by](op), group = groups.get(key) || { key, time: 0, count: 0, flops: 0, bytes: 0, one: op };
    group.time += total(op); group.count += op.count; group.flops += op.flops * op.count; group.bytes += op.bytes * op.count;
    groups.set(key, group);
  }
  const rows = [...groups.values()], shares = rows.reduce((sum, row) => sum + row.time, 0) / data.step;
  byId("profile-note").textContent = shares > 1.0005 ? `Transfers run beside kernels: the shares add up to ${percent(shares)}.` : "";
  if (!rows.length) { byId("profile").replaceChildren(node("p", { class: "note" }, "nothing matches")); return; }
  table(byId("profile"), [
    [{ opcode: "opcode", bound: "unit", name: "operation", source: "source line", scope: "scope" }[by], row => row.key, null, "t"],
    ["time", row => row.time, (row, value) => time(value), "n"],
    ["share", row => row.time / data.step, (row, value) => withShare(value), "n"],
    ["runs", row => row.count, null, "n"],
    ["each", row => row.time / row.count, (row, value) => time(value), "n"],
    ["FLOP", row => row.flops, (row, value) => value ? amount(value, "") : "", "n"],
    ["FLOP/s", row => row.flops / row.time * 1e12, (row, value) => value ? amount(value, "") : "", "n"],
    ["bytes", row => row.bytes, (row, value) => value ? bytes(value) : "", "n"],
  ], rows, 1, 15, row => {
    byId("search").value = by === "bound" ? "" : row.key === "unknown" ? "" : row.key;
    byId("search").dispatchEvent(new Event("input"));
    if (by === "name") viewOf(row.one);
    byId("timeline-part").scrollIntoView({ behavior: "smooth" });
  });
};
const drawCollectives = () => {
  const groups = new Map();
  for (const op of ops) {
    if (op.bound !== "network") continue;
    const kind = op.opcode, key = `${kind} ${op.axes}`;
    const group = groups.get(key) || { kind, axes: op.axes, time: 0, count: 0, bytes: 0 };
    group.time += total(op); group.count += op.count; group.bytes += op.bytes * op.count;
    groups.set(key, group);
  }
  const rows = [...groups.values()];
  if (!rows.length) { byId("collectives").append(node("p", { class: "note" }, "The program does not communicate.")); return; }
  const all = rows.reduce((sum, row) => sum + row.time, 0);
  byId("collectives-note").textContent = `${time(all)} of network time, of which the device waits for ${time(data.parts.exposed)}. Sent is by one device.`;
  table(byId("collectives"), [
    ["collective", row => row.kind, null, "k"], ...(rows.some(row => row.axes) ? [["along", row => row.axes || "unknown", null, "k"]] : []), ["time", row => row.time, (row, value) => time(value), "n"],
    ["share", row => row.time / all, (row, value) => withShare(value), "n"], ["runs", row => row.count, null, "n"],
    ["sent", row => row.bytes, (row, value) => bytes(value), "n"],
    ["rate", row => row.bytes / row.time * 1e12, (row, value) => amount(value, "B/s"), "n"],
  ], rows, rows.some(row => row.axes) ? 2 : 1, 20);
};
const ownerOf = ({ role, scope, source, loop }) =>
  [role, role.includes(scope || source) ? "" : scope || source, loop && `in ${loop}`].filter(Boolean).join("; ");
const drawBuffers = () => table(byId("buffers"), [
  ["buffer", row => row.name, null, "t"], ["size", row => row.bytes, (row, value) => bytes(value), "n"],
  ["of capacity", row => row.bytes / data.memory.capacity, (row, value) => withShare(value), "n"],
  ["kind", row => row.kind], ["whose", ownerOf, null, "t"],
  ["shape", row => row.shape, null, "k"], ["padding", row => row.bytes - row.unpadded, (row, value) => value > 0 ? bytes(value) : "", "n"],
], data.buffers, 1, 15);

const drawShardings = () => {
  const parameters = readParameters(data);
  if (!parameters.length) { byId("shardings").append(node("p", { class: "note" }, "The program has no parameters.")); return; }
  const held = parameters.reduce((sum, one) => sum + one.bytes, 0), whole = parameters.reduce((sum, one) => sum + one.whole, 0);
  byId("shardings-note").textContent = `${parameters.length} parameters of ${bytes(whole)}, of which a device holds ${bytes(held)}. ` +
    "A cell is a part, with the first device that holds it; equal colours are the same devices.";
  table(byId("shardings"), [
    ["parameter", row => row.name, null, "t"], ["parts on devices", partsOf, row => drawSharding(row)],
    ["size on one", row => row.bytes, (row, value) => bytes(value), "n"], ["shape on one", row => row.local], ["shape", row => row.shape],
    ["parts", partsOf, null, "n"], ["copies", copiesOf, null, "n"],
  ], parameters, 2, 12);
};

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
      pen.textAlign = "center"; pen.fillText(power < 0 ? (10 ** power).toFixed(-power) : short(amount(10 ** power, "")), x(10 ** power), bottom + 11);
    }
    pen.textAlign = "right";
    for (let power = Math.ceil(Math.log10(lowY)); 10 ** power <= highY; power++) {
      pen.beginPath(); pen.moveTo(left, y(10 ** power)); pen.lineTo(width - 12, y(10 ** power)); pen.stroke();
      if (power % 2 === 0) pen.fillText(short(amount(10 ** power, "")), left - 6, y(10 ** power));
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
  hover(canvas, event => {
    const box = canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    const near = drawn.filter(one => Math.hypot(one.px - x, one.py - y) <= one.radius + 3).sort((a, b) => a.radius - b.radius)[0];
    return near ? describe(near.point.op) + `\n${near.point.x.toFixed(2)} FLOP per byte` : "";
  });
};

// ---- memory over time

const drawMemory = () => {
  const { start, bytes: held } = data.curve, { peak, capacity } = data.memory;
  // Of a program that needs little of the memory the chart has its own scale.
  const low = peak < 0.2 * capacity, top = low ? peak * 1.25 : Math.max(peak, capacity) * 1.06;
  const at = t => { let low = 0, high = start.length; while (high - low > 1) { const middle = (low + high) >> 1; start[middle] <= t ? (low = middle) : (high = middle); } return low; };
  let pointer = null;
  const canvas = canvasIn(byId("memory"), 220, (pen, width, height) => {
    const left = 70, bottom = height - 22, x = t => left + t / data.step * (width - left - 8), y = value => bottom - value / top * (bottom - 8);
    pen.fillStyle = colour("page"); pen.fillRect(0, 0, width, height);
    const step = 2 ** Math.ceil(Math.log2(top / 5));
    pen.strokeStyle = colour("line"); pen.fillStyle = colour("faint"); pen.textAlign = "right";
    for (let value = 0; value <= top; value += step) {
      pen.beginPath(); pen.moveTo(left, y(value)); pen.lineTo(width - 8, y(value)); pen.stroke();
      pen.fillText(short(bytes(value)), left - 6, y(value));
    }
    pen.textAlign = "left";
    const ticks = niceStep(data.step, Math.max(3, width / 130));
    for (let t = 0; x(t) + 50 < width; t += ticks) pen.fillText(tick(t), x(t), bottom + 12);
    pen.beginPath(); pen.moveTo(x(0), bottom);
    start.forEach((t, i) => { pen.lineTo(x(i ? t : 0), y(held[Math.max(0, i - 1)])); pen.lineTo(x(i ? t : 0), y(held[i])); });
    pen.lineTo(x(data.step), y(held[held.length - 1] || 0)); pen.lineTo(x(data.step), bottom); pen.closePath();
    pen.fillStyle = colour("accent"); pen.globalAlpha = 0.25; pen.fill(); pen.globalAlpha = 1;
    pen.strokeStyle = colour("accent"); pen.stroke();
    const limit = low ? 8 : y(capacity);
    pen.strokeStyle = colour("bad"); pen.setLineDash([6, 4]);
    if (!low) { pen.beginPath(); pen.moveTo(left, limit); pen.lineTo(width - 8, limit); pen.stroke(); }
    pen.setLineDash([]);
    pen.fillStyle = colour("bad"); pen.fillText(`${low ? "↑ " : ""}capacity ${bytes(capacity)}`, left + 6, limit + (limit < 20 ? 10 : -8));
    if (pointer !== null) { pen.strokeStyle = colour("text"); pen.beginPath(); pen.moveTo(x(pointer), 8); pen.lineTo(x(pointer), bottom); pen.stroke(); }
  });
  hover(canvas, event => {
    const box = canvas.getBoundingClientRect();
    pointer = Math.max(0, Math.min(data.step, (event.clientX - box.left - 70) / (box.width - 78) * data.step));
    canvas.redraw();
    if (!start.length) return "";
    const busy = roots.filter(op => !isNetwork(op) && op.start <= pointer && op.start + op.duration >= pointer)[0];
    return `<b>${bytes(held[at(pointer)])}</b>at ${time(pointer)}${busy ? `\nwhile ${escaped(busy.name)} runs` : ""}`;
  });
  const parts = data.memory;
  byId("memory-key").textContent = `arguments ${bytes(parts.arguments)}, results ${bytes(parts.outputs)}, of them in the arguments' memory ${bytes(parts.aliased)}, ` +
    `temporaries ${bytes(parts.temporaries)}; reserved by the chip's software ${bytes(parts.reserved)}. A loop counts with its peak.`;
};

// ---- links

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
  // Planes that carry nothing are left out: a program may use a part of a large slice.
  const plane = shape[0] * shape[1], carries = z => carried.some(chips => chips && chips.slice(z * plane, (z + 1) * plane).some(load => load >= 0));
  const drawnPlanes = [...Array(shape[2]).keys()].filter(carries), planes = drawnPlanes.length, axes = ["x", "y", "z"], box = byId("links");
  if (planes < shape[2]) byId("links-note").textContent += ` Drawn: ${planes} of ${shape[2]} planes; the others carry nothing.`;
  let drawn = [];
  const layout = width => {
    const across = Math.max(1, Math.min(planes, 4, Math.floor((width - 12) / (5 * shape[0] + 24)))), rows = Math.ceil(planes / across);
    const most = Math.max(46, Math.min(96, 440 / shape[1]));
    const cell = Math.max(5, Math.min(most, (width - 24 * across - 12) / across / Math.max(shape[0], 1)));
    return { across, cell, height: rows * (shape[1] * cell + 34) + 8 };
  };
  const canvas = canvasIn(box, width => Math.min(layout(width).height, 6000), (pen, width, height) => {
    const { across, cell } = layout(width), text = pen.font;
    drawn = [];
    pen.fillStyle = colour("page"); pen.fillRect(0, 0, width, height);
    for (const [place, z] of drawnPlanes.entries()) {
      const left = 12 + (place % across) * (shape[0] * cell + 24), top = 24 + Math.floor(place / across) * (shape[1] * cell + 34);
      pen.textAlign = "left"; pen.font = text;
      if (shape[2] > 1) { pen.fillStyle = colour("faint"); pen.fillText(`z = ${z}`, left, top - 12); }
      for (let y = 0; y < shape[1]; y++) for (let x = 0; x < shape[0]; x++) {
        const chip = x + shape[0] * (y + shape[1] * z), cx = left + (x + 0.5) * cell, cy = top + (y + 0.5) * cell;
        for (let direction = 0; direction < 6; direction++) {
          const load = carried[direction] && carried[direction][chip];
          if (load === undefined || load < 0) continue;
          const use = loads[load], axis = direction >> 1, up = direction % 2 === 0 ? 1 : -1, gap = cell * 0.09;
          // Half of the way to the neighbour, the two directions side by side; z as a short diagonal.
          const dx = axis === 0 ? up * cell / 2 : axis === 2 ? up * cell * 0.28 : 0, dy = axis === 1 ? up * cell / 2 : axis === 2 ? -up * cell * 0.28 : 0;
          const ox = axis === 1 ? up * gap : 0, oy = axis === 0 ? up * gap : 0;
          pen.strokeStyle = heat(busiest ? use.busy / data.step / busiest : 0); pen.lineWidth = Math.max(1, Math.min(6, cell * 0.1));
          pen.beginPath(); pen.moveTo(cx + ox, cy + oy); pen.lineTo(cx + dx + ox, cy + dy + oy); pen.stroke();
          if (cell >= 64) {
            // Beside the line, on the side of its direction; past the end of a diagonal.
            pen.fillStyle = colour("faint"); pen.font = "10px system-ui, 'DejaVu Sans', sans-serif";
            pen.textAlign = axis === 1 ? (up > 0 ? "left" : "right") : "center";
            const [tx, ty] = [[dx * 0.62, oy + up * 9], [ox + up * 6, dy * 0.8], [dx, dy - up * 7]][axis];
            pen.fillText(Math.round(100 * use.busy / data.step) + " %", cx + tx, cy + ty);
          }
          drawn.push([cx + dx * 0.6 + ox, cy + dy * 0.6 + oy, `<b>chip (${x}, ${y}, ${z}) to ${up > 0 ? "+" : "−"}${axes[axis]}</b>${bytes(use.bytes)}, busy for ${percent(use.busy / data.step)} of the step`]);
        }
        pen.fillStyle = colour("faint"); pen.beginPath(); pen.arc(cx, cy, Math.max(1.2, Math.min(7, cell * 0.12)), 0, 7); pen.fill();
      }
    }
    pen.lineWidth = 1;
  });
  hover(canvas, event => {
    const place = canvas.getBoundingClientRect(), x = event.clientX - place.left, y = event.clientY - place.top;
    let near = null, distance = 14;
    for (const one of drawn) { const d = Math.hypot(one[0] - x, one[1] - y); if (d < distance) { distance = d; near = one; } }
    return near ? near[2] : "";
  });
  // Numbers of large slices too, whose drawing has no place for them.
  const sums = carried.map((chips, direction) => {
    const uses = (chips || []).filter(load => load >= 0).map(load => loads[load]);
    return { name: `${direction % 2 === 0 ? "+" : "−"}${axes[direction >> 1]}`, count: uses.length, bytes: uses.reduce((sum, use) => sum + use.bytes, 0),
      busy: uses.reduce((sum, use) => sum + use.busy, 0) / Math.max(1, uses.length) / data.step, most: Math.max(0, ...new Set(uses.map(use => use.busy))) / data.step };
  }).filter(row => row.count);
  const below = node("div");
  box.append(below);
  table(below, [
    ["direction", row => row.name, null, "k"], ["links", row => row.count, null, "n"], ["carried", row => row.bytes, (row, value) => bytes(value), "n"],
    ["busy, mean", row => row.busy, (row, value) => percent(value), "n"], ["busy, most", row => row.most, (row, value) => withShare(value), "n"],
  ], sums, 4, 6);
  for (const [name, use] of [["between the devices of a chip", data.links.package], ["between slices, of a host", data.links.dcn]])
    if (use) box.append(node("p", { class: "note" }, `Links ${name}: ${use.count} carry up to ${bytes(use.bytes)} each, busy for up to ${percent(use.busy / data.step)} of the step.`));
};

drawHeader();
setUpTimeline();
byId("group").onchange = byId("filter").oninput = drawProfile;
drawProfile();
drawCollectives();
drawRoofline();
drawShardings();
drawMemory();
drawBuffers();
drawLinks();
