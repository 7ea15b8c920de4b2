// Several emulated steps side by side, drawn from the array of reports in #data (emulator/report/page.c). The first one is
// what the others are compared with. What it shares with the report of one step is in base.js.
const reports = JSON.parse(document.getElementById("data").textContent).map((data, i) => ({ data, ...readOps(data), letter: String.fromCharCode(65 + i % 26) }));
const first = reports[0], longest = Math.max(...reports.map(report => report.data.step));
const hues = ["matrix", "network", "memory", "host", "vector", "mark"];
const hueOf = index => colour(hues[index % hues.length]);
const change = (value, base) => base > 0 ? `${value >= base ? "+" : "−"}${Math.abs(100 * (value / base - 1)).toFixed(1)} %` : value > 0 ? "new" : "";
// A value with its change from the first report's, red where more is worse.
const changed = (shown, value, base, index, moreIsWorse = true) => {
  const cell = node("span", {}, shown);
  if (index && (base > 0 ? Math.abs(value / base - 1) >= 0.0005 : value !== base)) cell.append(" ", node("small", { class: (value > base) === moreIsWorse ? "worse" : "better" }, change(value, base)));
  return cell;
};

const drawNumbers = () => {
  const rows = [
    ["one step", data => data.step, time], ["range", data => data.range, String],
    [reports.every(report => report.data.scopes) ? "MFU" : "HFU", data => reports.every(report => report.data.scopes) ? data.mfu : data.hfu, percent, false],
    ["waiting for the network", data => data.parts.exposed, time], ["sent by a device", data => data.sent, bytes],
    ["peak memory", data => data.memory.peak, bytes], ["HBM of a device", data => data.memory.capacity, bytes, false],
    ["FLOP by a device", data => data.flops, value => amount(value, "FLOP")], ["HBM traffic", data => data.hbm, bytes],
  ];
  const body = rows.map(([label, value, text, worse]) => node("tr", {}, node("td", {}, label), ...reports.map(({ data }, i) => {
    const one = value(data), cell = node("td", { class: "n" });
    cell.append(typeof one === "string" ? one : changed(text(one), one, value(first.data), i, worse !== false));
    if (label === "peak memory" && one > data.memory.capacity) cell.append(node("div", { class: "worse" }, "does not fit"));
    return cell;
  })));
  byId("numbers").append(node("div", { class: "scroll" }, node("table", {}, node("thead", {},
    node("tr", {}, node("th", {}, ""), ...reports.map(report => node("th", { class: "n", scope: "col" }, report.letter)))), node("tbody", {}, ...body))));
  for (const { data, letter } of reports)
    for (const warning of data.warnings) byId("numbers").after(node("div", { class: "warning" }, `${letter}: ${warning}`));
};

// ---- where the steps go

const partNames = { launch: "launch", matrix: "matrix units", vector: "vector unit", memory: "HBM", network: "waiting for the network",
  host: "waiting for copies", none: "other" };
const partsOfStep = data => {
  const parts = { launch: data.parts.launch, matrix: data.parts.matrix, vector: data.parts.vector, memory: data.parts.memory,
    network: data.parts.exposed, host: data.parts.copies };
  parts.none = Math.max(0, data.step - Object.values(parts).reduce((sum, value) => sum + value, 0));
  return parts;
};
// A launch of 0 is one that is not known.
const partOfKey = (parts, name) => name === "launch" && !parts[name] ? "unknown" : time(parts[name]);
const drawParts = () => {
  const base = partsOfStep(first.data);
  reports.forEach(({ data, letter }, index) => {
    const bar = node("div", { class: "bar", style: `flex:${data.step}` });
    for (const [name, value] of Object.entries(partsOfStep(data))) {
      if (value / data.step < 0.0005) continue;
      const part = node("div", { style: `flex:${value};background:var(--${name})` });
      hover(part, () => `<b>${letter}: ${partNames[name]}</b>${time(value)}, ${percent(value / data.step)} of the step` +
        (index ? `\n${change(value, base[name])} against ${first.letter}` : ""));
      bar.append(part);
    }
    byId("parts").append(node("div", { class: "row" }, node("b", {}, letter), bar, node("div", { style: `flex:${longest - data.step}` }),
      node("span", { class: "note" }, time(data.step))));
  });
  for (const name of Object.keys(partNames))
    if (reports.some(({ data }) => partsOfStep(data)[name] / data.step >= 0.0005))
      byId("parts-key").append(node("span", { style: `--c:var(--${name})` },
        `${partNames[name]} ${reports.map(({ data }) => partOfKey(partsOfStep(data), name)).join(" / ")}`));
};

// ---- timelines

const drawTimelines = () => {
  for (const report of reports) {
    const row = node("div", { class: "row" }, node("b", {}, report.letter)), box = node("div", { class: "box", style: "flex:1;min-width:0" });
    row.append(box);
    byId("timelines").append(row);
    let drawn = [];
    const canvas = canvasIn(box, 58, (pen, width, height) => {
      const scale = width / longest;
      drawn = [];
      pen.fillStyle = colour("page"); pen.fillRect(0, 0, width, height);
      const emit = (op, start, end) => {
        if (isControl(op)) return;
        const top = isNetwork(op) ? 38 : 3, tall = isNetwork(op) ? 16 : 32;
        pen.fillStyle = colour(op.bound); pen.fillRect(start * scale, top, Math.max(0.4, (end - start) * scale), tall);
        drawn.push([start * scale, top, Math.max(1, (end - start) * scale), tall, op]);
      };
      emit.folded = (op, start, end, count) => {
        // Iterations that are too narrow: the shares of their parts, as bands.
        bands(op, (bound, from, to) => { pen.fillStyle = colour(bound); pen.fillRect(start * scale, 3 + 32 * from, (end - start) * scale, 32 * (to - from)); });
        if (op.children.some(isNetwork)) { pen.fillStyle = colour("network"); pen.fillRect(start * scale, 38, (end - start) * scale, 16); }
        drawn.push([start * scale, 3, (end - start) * scale, 51, op, count]);
      };
      walk(report.roots, 0, { from: 0, to: report.data.step, scale }, emit);
      pen.strokeStyle = colour("line"); pen.beginPath(); pen.moveTo(report.data.step * scale, 0); pen.lineTo(report.data.step * scale, height); pen.stroke();
    });
    hover(canvas, event => {
      const at = canvas.getBoundingClientRect(), x = event.clientX - at.left, y = event.clientY - at.top;
      const found = drawn.findLast(([left, top, width, tall]) => x >= left - 1 && x <= left + width + 1 && y >= top && y <= top + tall);
      return found ? describe(found[4]) : "";
    });
  }
};

// ---- tables

// Rows by key with one value per report.
const gather = (select, key, values) => {
  const groups = new Map();
  reports.forEach((report, index) => {
    for (const op of report.ops) {
      if (!select(op)) continue;
      const name = key(op), group = groups.get(name) || { key: name, of: reports.map(() => values.map(() => 0)) };
      values.forEach((value, v) => { group.of[index][v] += value(op); });
      groups.set(name, group);
    }
  });
  return [...groups.values()];
};
const last = reports.length - 1;
const difference = (row, value = 0) => row.of[last][value] - row.of[0][value];
const signed = (value, unit) => value === 0 ? "" : (value > 0 ? "+" : "−") + unit(Math.abs(value));
const drawProfile = () => {
  const by = byId("group").value, filter = byId("filter").value.trim().toLowerCase();
  const rows = gather(op => !isControl(op) && (!filter || (op.name + " " + op.opcode + " " + op.source + " " + op.scope).toLowerCase().includes(filter)), keys[by], [total, op => op.count]);
  if (!rows.length) { byId("profile").replaceChildren(node("p", { class: "note" }, "nothing matches")); return; }
  table(byId("profile"), [
    [{ opcode: "opcode", bound: "unit", source: "source line", scope: "scope" }[by], row => row.key, null, "t"],
    ...reports.map(({ letter }, i) => [letter, row => row.of[i][0], (row, value) => value ? time(value) : "", "n"]),
    ...reports.map(({ letter }, i) => [`runs ${letter}`, row => row.of[i][1], (row, value) => value || "", "n"]),
    [`time ${reports[last].letter} − A`, row => Math.abs(difference(row)), row => node("span", { class: difference(row) > 0 ? "worse" : "better" }, signed(difference(row), time)), "n"],
  ], rows, 1 + 2 * reports.length, 15);
};
const drawCollectives = () => {
  const rows = gather(op => op.bound === "network", op => op.opcode + (op.scope ? ` · ${keys.scope(op).replace(/\d+/g, "*")}` : ""),
    [total, op => op.bytes * op.count, op => op.count]);
  if (!rows.length) { byId("collectives").append(node("p", { class: "note" }, "None of them communicates.")); return; }
  table(byId("collectives"), [
    ["collective", row => row.key, null, "t"],
    ...reports.map(({ letter }, i) => [`sent ${letter}`, row => row.of[i][1], (row, value) => value ? `${bytes(value)} (${row.of[i][2]} ×)` : "", "n"]),
    ...reports.map(({ letter }, i) => [`time ${letter}`, row => row.of[i][0], (row, value) => value ? time(value) : "", "n"]),
    [`time ${reports[last].letter} − A`, row => Math.abs(difference(row)), row => node("span", { class: difference(row) > 0 ? "worse" : "better" }, signed(difference(row), time)), "n"],
  ], rows, 1 + 2 * reports.length, 15);
};

// ---- memory

const drawMemory = () => {
  const top = 1.06 * Math.max(...reports.map(({ data }) => data.memory.peak), ...reports.map(({ data }) => Math.min(data.memory.capacity, 2 * data.memory.peak)));
  canvasIn(byId("memory"), 220, (pen, width, height) => {
    const left = 70, bottom = height - 22, x = t => left + t / longest * (width - left - 8), y = value => bottom - value / top * (bottom - 8);
    pen.fillStyle = colour("page"); pen.fillRect(0, 0, width, height);
    pen.strokeStyle = colour("line"); pen.fillStyle = colour("faint"); pen.textAlign = "right";
    for (let value = 0, step = 2 ** Math.ceil(Math.log2(top / 5)); value <= top; value += step) {
      pen.beginPath(); pen.moveTo(left, y(value)); pen.lineTo(width - 8, y(value)); pen.stroke();
      pen.fillText(short(bytes(value)), left - 6, y(value));
    }
    pen.textAlign = "left";
    const ticks = niceStep(longest, Math.max(3, width / 130));
    for (let t = 0; x(t) + 60 < width; t += ticks) pen.fillText(tick(t), x(t), bottom + 12);
    reports.forEach(({ data }, index) => {
      pen.strokeStyle = hueOf(index); pen.lineWidth = 2; pen.beginPath();
      data.curve.start.forEach((t, i) => { pen.lineTo(x(i ? t : 0), y(data.curve.bytes[Math.max(0, i - 1)])); pen.lineTo(x(i ? t : 0), y(data.curve.bytes[i])); });
      pen.lineTo(x(data.step), y(data.curve.bytes[data.curve.bytes.length - 1] || 0)); pen.stroke();
      pen.setLineDash([6, 4]); pen.lineWidth = 1;
      pen.beginPath(); pen.moveTo(left, y(data.memory.capacity)); pen.lineTo(width - 8, y(data.memory.capacity)); pen.stroke(); pen.setLineDash([]);
    });
    pen.lineWidth = 1;
  });
  reports.forEach(({ data, letter }, index) => byId("memory-key").append(node("span", { style: `--c:var(--${hues[index % hues.length]})` },
    `${letter}: peak ${bytes(data.memory.peak)} of ${bytes(data.memory.capacity)}; arguments ${bytes(data.memory.arguments)}, temporaries ${bytes(data.memory.temporaries)}`)));
};

// ---- shardings

const drawShardings = () => {
  const groups = new Map(), parameters = reports.map(({ data }) => readParameters(data));
  parameters.forEach((list, index) => list.forEach(parameter => {
    const group = groups.get(parameter.name) || { name: parameter.name, of: reports.map(() => null) };
    group.of[index] = parameter;
    groups.set(parameter.name, group);
  }));
  const shown = parameter => parameter ? `${parameter.shape} ${parameter.local} ${parameter.layout.key}` : "";
  const all = [...groups.values()], rows = all.filter(row => row.of.some(one => shown(one) !== shown(row.of[0])));
  byId("shardings-note").textContent = rows.length ? `${rows.length} of ${all.length} parameters are sharded differently.`
    : all.length ? `All ${all.length} parameters are sharded alike.` : "The programs have no parameters.";
  if (!rows.length) return;
  const most = row => Math.max(...row.of.map(one => one ? one.bytes : 0));
  table(byId("shardings"), [
    ["parameter", row => row.name, null, "t"], ["shape", row => (row.of.find(one => one) || {}).shape || ""],
    ...reports.map(({ letter }, i) => [letter, row => row.of[i] ? row.of[i].bytes : 0, row => row.of[i]
      ? node("div", {}, drawSharding(row.of[i]), node("small", { class: "note" }, `${row.of[i].local}, ${bytes(row.of[i].bytes)}, ${copiesText(row.of[i])}`)) : "not there"]),
    ["largest on a device", most, (row, value) => bytes(value), "n"],
  ], rows, 2 + reports.length, 12);
};

drawNumbers();
drawParts();
drawTimelines();
byId("group").onchange = byId("filter").oninput = drawProfile;
drawProfile();
drawCollectives();
drawMemory();
drawShardings();
