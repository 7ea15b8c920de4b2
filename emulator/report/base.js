"use strict";
// What the report of one step and the comparison of several share: units, operations, tooltips, canvases, tables, and the
// drawings of shardings. Times are in picoseconds and sizes in bytes of one device. Nothing is loaded from elsewhere.
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
// For axes: without zeros at the end of a fraction.
const short = text => text.replace(/(\.\d*?)0+(?= |$)/, "$1").replace(/\.(?= |$)/, "");
const tick = value => value === 0 ? "0" : short(time(value));
const percent = value => (100 * value).toFixed(value >= 0.0995 ? 1 : 2) + " %";
const escaped = text => text.replace(/[&<>"]/g, one => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[one]);

// ---- operations

const boundNames = { matrix: "matrix units", vector: "vector unit", memory: "HBM", network: "network", host: "host", none: "control" };
// The operations of a report as objects, and those outside of all loops.
const readOps = data => {
  const ops = data.ops.name.map((name, i) => ({
    name: data.texts[name], opcode: data.texts[data.ops.opcode[i]], source: data.texts[data.ops.source[i]], scope: data.texts[data.ops.scope[i]],
    axes: data.texts[data.ops.axes[i]],
    bound: data.bounds[data.ops.bound[i]], start: data.ops.start[i], duration: data.ops.duration[i], count: data.ops.count[i],
    depth: data.ops.depth[i], flops: data.ops.flops[i], bytes: data.ops.bytes[i], step: data.step, children: [],
  }));
  for (let i = 0; i < data.flows.length; i += 3) Object.assign(ops[data.flows[i]], { issued: data.flows[i + 1], awaited: data.flows[i + 2] });
  for (const i of data.hidden) ops[i].hidden = true;
  const roots = [], path = [];
  for (const op of ops) {
    while (path.length > op.depth) path.pop();
    (path.length ? path[path.length - 1].children : roots).push(op);
    op.parent = path[path.length - 1];
    path.push(op);
  }
  return { ops, roots };
};
const isControl = op => op.bound === "none";
const total = op => op.duration * op.count;
// How often the body of a loop runs each time that the loop does.
const trips = op => op.children.length && op.opcode === "while" ? Math.max(1, Math.round(op.children[0].count / op.count)) : 1;
const isNetwork = op => op.bound === "network" || op.bound === "host";
const describe = op => `<b>${escaped(op.name)}</b>${escaped(op.opcode)}, ${boundNames[op.bound]}${op.axes ? ` along ${escaped(op.axes)}` : ""}\n${time(op.duration)}` +
  (op.count > 1 ? ` × ${op.count} = ${time(total(op))}` : "") + (trips(op) > 1 ? `, ${trips(op)} iterations` : "") +
  (isControl(op) ? "" : `, ${percent(total(op) / op.step)} of the step`) +
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

// Shows text(event) while the pointer is over an element, and where a finger taps it.
const hover = (element, text) => {
  for (const kind of ["pointermove", "click"]) element.addEventListener(kind, event => showTip(event, text(event)));
  element.addEventListener("pointerleave", event => showTip(event, ""));
};
addEventListener("pointerdown", event => showTip(event, ""));

// A canvas of a height in CSS pixels, or of height(width), redrawn when its width or the colour scheme changes. `draw(pen, width, height)`.
const canvasIn = (box, heightOf, draw) => {
  const canvas = node("canvas"), heightFor = width => typeof heightOf === "function" ? heightOf(width) : heightOf;
  canvas.style.height = heightFor(box.clientWidth || 900) + "px";
  box.append(canvas);
  const redraw = () => {
    const width = canvas.clientWidth, ratio = devicePixelRatio || 1;
    if (!width) return;
    const height = heightFor(width);
    canvas.style.height = height + "px";
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    pen.font = "12px system-ui, 'DejaVu Sans', sans-serif";
    pen.textBaseline = "middle";
    draw(pen, width, height);
  };
  // In the next frame: another height within a call of the observer is an error of the page.
  new ResizeObserver(() => requestAnimationFrame(redraw)).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  canvas.redraw = redraw;
  return canvas;
};
const niceStep = (span, count) => {
  const raw = span / count, power = 10 ** Math.floor(Math.log10(raw));
  return power * (raw / power > 5 ? 10 : raw / power > 2 ? 5 : raw / power > 1 ? 2 : 1);
};

// Calls emit(op, start, end, row) for what the view shows, iterations of loops unfolded, and emit.folded(...) for loops whose
// iterations are too narrow to see. Of operations that are narrower than a pixel it leaves out those at the place of the last one.
const walk = (list, offset, view, emit) => {
  const seen = view.seen ||= {};
  for (const op of list) {
    if (op.hidden) continue;
    const start = op.start + offset, end = start + op.duration, row = isNetwork(op) ? "network" : op.depth;
    if (end >= view.from && start <= view.to && ((end - start) * view.scale >= 0.15 || !((start - seen[row]) * view.scale < 0.5))) {
      emit(op, start, end);
      seen[row] = start;
    }
    if (!op.children.length || end < view.from || start > view.to || (end - start) * view.scale < 1) continue;
    const count = trips(op), body = op.duration / count;
    if (count > 1 && body * view.scale < 5) { emit.folded(op, start, end, count); continue; }
    const first = Math.max(0, Math.floor((view.from - start) / body)), last = Math.min(count - 1, Math.floor((view.to - start) / body));
    for (let i = first; i <= last; i++) walk(op.children, offset + i * body, view, emit);
  }
};
// The kernels of a loop's body by what bounds them: band(bound, from, to), with places between 0 and 1.
const bands = (op, band) => {
  const of = { matrix: 0, vector: 0, memory: 0 };
  for (const one of op.children) if (of[one.bound] !== undefined) of[one.bound] += one.duration;
  const all = Object.values(of).reduce((sum, value) => sum + value, 0);
  let at = 0;
  if (!all) band("none", 0, 1);
  else for (const [bound, value] of Object.entries(of)) band(bound, at, at += value / all);
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
      cell.onclick = () => { down = i === sort ? !down : typeof columns[i][1](rows[0]) !== "string"; sort = i; render(); };
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
  opcode: op => isNetwork(op) ? op.opcode.replace(/-start$/, "") : op.opcode,
  bound: op => boundNames[op.bound],
  name: op => op.name,
  source: op => op.source || "unknown",
  scope: op => op.scope.split("/").slice(0, -1).join("/") || "unknown",
};

// ---- shardings

// From pairs [value, times] to values.
const expand = runs => { const out = []; for (let i = 0; i < runs.length; i += 2) for (let j = 0; j < runs[i + 1]; j++) out.push(runs[i]); return out; };
// The ids of the devices in the order of the partitions: from pairs [first, how many].
const readDevices = data => { const out = []; for (let i = 0; i < data.devices.length; i += 2) for (let j = 0; j < data.devices[i + 1]; j++) out.push(data.devices[i] + j); return out; };
const readLayouts = data => {
  const devices = readDevices(data);
  return data.layouts.map(layout => {
    const parts = Array.from({ length: layout.tiles.reduce((product, tiles) => product * tiles, 1) }, () => []);
    expand(layout.of).forEach((part, partition) => { if (part >= 0) parts[part].push(devices[partition]); });
    return { tiles: layout.tiles, key: `${layout.text} ${layout.tiles} ${layout.of}`, parts, count: devices.length };
  });
};
const readParameters = data => {
  const layouts = readLayouts(data), columns = data.parameters;
  return columns.name.map((name, i) => ({
    name: data.texts[name], shape: data.texts[columns.shape[i]], local: data.texts[columns.local[i]], bytes: columns.bytes[i],
    whole: columns.whole[i], layout: layouts[columns.layout[i]],
  }));
};
const partsOf = parameter => parameter.layout.parts.length;
const copiesOf = parameter => parameter.layout.parts.length ? parameter.layout.parts[0].length : 0;
const copiesText = parameter => copiesOf(parameter) === 1 ? "one copy" : `${copiesOf(parameter)} copies`;
const listed = ids => ids.length > 12 ? ids.slice(0, 12).join(", ") + `, … (${ids.length})` : ids.join(", ");
// The array by its split dimensions, the last one across and the others down: a cell for each part and a hue for the device that has it first: neighbours
// in the colours are neighbours in the list of devices.
const drawSharding = parameter => {
  const { tiles, parts, count } = parameter.layout, split = tiles.map((size, i) => [size, i]).filter(([size]) => size > 1);
  // A single split dimension runs down the drawing unless it is the last one.
  const across = split.length > 1 || (split.length && split[0][1] === tiles.length - 1);
  const columns = across ? split[split.length - 1][0] : 1, rows = Math.max(1, parts.length / columns);
  const canvas = node("canvas", { class: "sharding", role: "img", "aria-label": `${parts.length} parts, ${copiesText(parameter)} of each` });
  const width = 132, height = rows === 1 ? 22 : Math.max(22, Math.min(66, rows * 16));
  canvas.style.width = width + "px";
  canvas.style.height = height + "px";
  const draw = () => {
    const ratio = devicePixelRatio || 1, pen = canvas.getContext("2d");
    canvas.width = width * ratio; canvas.height = height * ratio;
    pen.scale(ratio, ratio);
    pen.font = "10px system-ui, 'DejaVu Sans', sans-serif"; pen.textAlign = "center"; pen.textBaseline = "middle";
    const dark = matchMedia("(prefers-color-scheme: dark)").matches, cell = [width / columns, height / rows];
    parts.forEach((ids, part) => {
      const x = (part % columns) * cell[0], y = Math.floor(part / columns) * cell[1];
      const hue = 200 + 320 * (ids.length ? ids[0] : 0) / Math.max(1, count);
      pen.fillStyle = parts.length === 1 ? colour("line") : ids.length ? `hsl(${hue % 360} 45% ${dark ? 38 : 72}%)` : colour("panel");
      pen.fillRect(x, y, cell[0] - (cell[0] > 6 ? 1 : 0), cell[1] - (cell[1] > 6 ? 1 : 0));
      if (cell[0] >= 22 && cell[1] >= 12) {
        pen.fillStyle = colour("text");
        pen.fillText(parts.length === 1 ? `all ${ids.length}` : ids.length > 1 ? `${ids[0]} …` : String(ids[0] ?? ""), x + cell[0] / 2, y + cell[1] / 2 + 1);
      }
    });
  };
  draw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  hover(canvas, event => {
    const box = canvas.getBoundingClientRect(), column = Math.min(columns - 1, Math.floor((event.clientX - box.left) / box.width * columns));
    const row = Math.min(rows - 1, Math.floor((event.clientY - box.top) / box.height * rows)), part = Math.max(0, row * columns + column);
    let rest = part;
    const index = [...tiles].reverse().map(size => { const at = rest % size; rest = Math.floor(rest / size); return at; }).reverse();
    return `<b>${escaped(parameter.name)}, part ${index.length ? `[${index.join(", ")}]` : "0"}</b>${parts[part].length > 1 ? "devices" : "device"} ${listed(parts[part] || [])}`;
  });
  return canvas;
};
