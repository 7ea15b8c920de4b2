# SPDX-License-Identifier: Apache-2.0
# The report of `emulate` for a browser: its data, and, where Chromium is installed, what a browser makes of it.
page_of() { # page_of NAME PROGRAM SLICE
    exits 0 "report of $1" meshlo emulate "$2" --topology "$3" --report "$1.html" --json
    cp out "$1.json"
}
cat >hostile.hlo <<'HLO'
HloModule hostile
ENTRY main {
  x = f32[64,64] parameter(0)
  a = f32[64,64] add(x, x), metadata={op_name="</script><img src=x onerror=alert(1)>" source_file="a<b.py" source_line=1}
  ROOT y = f32[64,64] dot(a, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
HLO
page_of hostile hostile.hlo v5e-1
page_of mlp "$SOURCE/examples/mlp_gradient_8192.hlo" v2-8
page_of decoder "$SOURCE/examples/decoder_32b_step.mlir.xz" v5p-128
cat >large.hlo <<'HLO'
HloModule large
ENTRY main {
  x = f32[65536,65536] parameter(0)
  ROOT y = f32[65536,65536] add(x, x)
}
HLO
exits 5 "report of a program that does not fit" meshlo emulate large.hlo --topology v2-8 --report large.html
cat >read_page.py <<'PY'
import html.parser, json, sys


class Page(html.parser.HTMLParser):
    """The elements of a page, and the text of its scripts."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.tags, self.scripts, self.inside = set(), set(), [], False
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.ids |= {value for name, value in attributes if name == "id"}
        assert not any(name in ("src", "onerror", "onload") for name, _ in attributes), attributes
        if tag == "script":
            self.inside = True
            self.scripts.append("")

    def handle_endtag(self, tag):
        self.inside = self.inside and tag != "script"

    def handle_data(self, text):
        if self.inside:
            self.scripts[-1] += text


text = open(sys.argv[1] + ".html", encoding="utf-8").read()
page = Page(text)
assert len(page.scripts) == 2 and not page.tags & {"img", "link", "iframe", "b"}, page.tags
assert "http:" not in text and "https:" not in text and "@import" not in text
data = json.loads(page.scripts[0])
for name in ("tiles parts timeline profile collectives roofline memory buffers links shardings").split():
    assert name in page.ids and f'"{name}"' in page.scripts[1], name
columns = data["ops"]
assert len({len(column) for column in columns.values()}) == 1
for op, issued, awaited in zip(data["flows"][::3], data["flows"][1::3], data["flows"][2::3]):
    assert data["bounds"][columns["bound"][op]] in ("network", "host")
    assert issued <= columns["start"][op] and (awaited < 0 or awaited >= columns["start"][op] + columns["duration"][op])
assert len(data["flows"]) // 3 == sum(data["bounds"][bound] in ("network", "host") for bound in columns["bound"])
if len(sys.argv) == 2:
    j = json.load(open(sys.argv[1] + ".json"))
    assert data["step"] == round(j["step_seconds"] * 1e12) and data["memory"]["peak"] == j["hbm_peak_bytes"]
    assert [data["texts"][i] for i in columns["name"]] == [op["name"] for op in j["ops"]]
    assert columns["count"] == [op["count"] for op in j["ops"]] and columns["depth"] == [op["depth"] for op in j["ops"]]
    carried = [data["links"]["loads"][load]["bytes"] * times for runs in data["links"]["directions"]
               for load, times in zip(runs[::2], runs[1::2]) if load >= 0]
    others = sum(one["bytes"] for one in j["links"]) - sum(carried)
    held = data["parameters"]
    assert sum(held["bytes"]) <= j["argument_bytes"] and all(map(int.__le__, held["bytes"], held["whole"]))
    devices = [first + i for first, count in zip(data["devices"][::2], data["devices"][1::2]) for i in range(count)]
    assert len(set(devices)) == len(devices) == j["num_devices"]
    for whole, one, layout in zip(held["whole"], held["bytes"], held["layout"]):
        layout, parts = data["layouts"][layout], 1
        for tiles in layout["tiles"]:
            parts *= tiles
        of = [part for part, count in zip(layout["of"][::2], layout["of"][1::2]) for _ in range(count)]
        assert len(of) == len(devices) and all(of.count(part) * parts == len(devices) for part in range(parts)), layout
        assert (parts - 1) * one < whole <= parts * one  # the last part may be smaller
    assert abs(others) <= 1e-9 * sum(carried) or "package" in data["links"] or "dcn" in data["links"], others
PY
for name in hostile mlp decoder; do check "report of $name: the data are those of --json" python3 read_page.py $name; done
check "report of a program that does not fit: says so" python3 -c "
import subprocess, sys
subprocess.run([sys.executable, 'read_page.py', 'large', 'alone'], check=True)
assert 'does not fit' in open('large.html').read()"
exits 0 "report with a fault" meshlo emulate "$SOURCE/examples/mlp_gradient_512.hlo" --on v5e-8 --fault straggler:3:1.5 --report fault.html
check "bug: the healthy step was in ms on a page in µs" grep -qE 'a healthy slice takes [0-9.]+ (µ|\\u00b5)s\.' fault.html
exits 0 "report of a comparison" meshlo compare "$SOURCE/examples/mlp_gradient_8192.hlo" hostile.hlo --on v2-8 --report comparison.html
says out "step" "report of a comparison: the table is printed too"
check "report of a comparison: its data, and text that is no markup" python3 -c "
import json, re
text = open('comparison.html').read()
reports = json.loads(re.search('<script type=\"application/json\" id=\"data\">(.*?)</script>', text, re.DOTALL)[1])
assert len(reports) == 2 and reports[0]['step'] > reports[1]['step'] and '<img' not in text and 'http' not in text
for name in 'numbers parts parts-key timelines group filter profile collectives memory memory-key shardings shardings-note'.split():
    assert f'id=\"{name}\"' in text and f'byId(\"{name}\")' in text, name"
exits 0 "report of a comparison on standard output" meshlo compare "$SOURCE/examples/mlp_gradient_512.hlo" --on v2-8,v3-8 --report -
says out "</html>" "report of a comparison on standard output: the page"
exits 2 "report of a comparison where no file can be" meshlo compare hostile.hlo --on v5e-1,v6e-1 --report no/such/folder.html
# Which axes a collective is along is what advice says too, which reads the program and not the report.
exits 0 "collectives by axis" meshlo explain "$SOURCE/examples/decoder_32b_step.mlir.xz" --on v5p-128 --json --budget 0
cp out explained.json
check "collectives by axis: as explain has them" python3 -c "
import json
from collections import Counter
groups = json.load(open('explained.json'))['groups']
explained, emulated = Counter(), Counter()
for one in groups: explained[one['opcode'], one['axes']] += one['count']
for op in json.load(open('decoder.json'))['ops']:
    if op['bound'] == 'network': emulated[op['opcode'].removesuffix('-start'), op.get('axes', '')] += op['count']
assert explained == emulated, (explained, emulated)"
check "report of a 32B step: small" test "$(wc -c <decoder.html)" -lt 300000

browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
if [ -z "$browser" ]; then
    echo "NOT RUN: reports in a browser: this machine does not have Chromium"
else
    check "pictures in the documents show today's reports" python3 -B "$SOURCE/docs/make_pictures.py" "$MESHLO" --check
    # Each width in both colour schemes: no error of the script, and all tables filled.
    exits 0 "an unknown launch" meshlo compare "$SOURCE/examples/mlp_gradient_8192.hlo" --on v5e-8,v6e-8 --report launch.html
    "$browser" --headless=new --no-sandbox --disable-gpu --virtual-time-budget=3000 --dump-dom "file://$PWD/launch.html" >dom 2>console
    check "bug: an unknown launch was 0 ps on the page of a comparison" grep -q 'launch 97.00 µs / unknown' dom
    check "bug: equal memory had changed by -0.0 %" sh -c '! grep -q "[+−]0.0 %" dom'
    # On a phone: what its controls do, as a script in the page finds it.
    cat >drive.js <<'JS'
addEventListener("load", () => setTimeout(() => {
  const rows = () => [...document.querySelectorAll("#profile tbody tr")].map(row => row.cells[0].textContent);
  const failures = [], expect = (name, holds) => { if (!holds) failures.push(name); };
  timeline.canvas.redraw();  // a busy machine may not have drawn a frame yet
  expect("transfers narrower than a pixel are drawn", timeline.drawn.some(([left, , , , op]) => isNetwork(op) && left > 0.8 * innerWidth));
  expect("shares of overlapping transfers are explained", byId("profile-note").textContent.includes("add up to"));
  document.querySelector("#profile th").click();
  expect("names are sorted from a to z", rows()[0] < rows()[5]);
  byId("filter").value = "all-"; byId("filter").oninput();
  expect("the filter", rows().length > 1 && rows().every(row => row.startsWith("all-")));
  byId("search").value = "reduce-scatter"; byId("search").oninput({ target: byId("search") });
  const first = ops.find(op => !isControl(op) && matches(op));
  byId("search").onkeydown({ key: "Enter" });
  expect("the search goes to the first match", timeline.from <= first.start && timeline.to >= first.start + first.duration && timeline.to < data.step / 2);
  byId("zoom-all").click();
  expect("all", timeline.from === 0 && timeline.to === data.step);
  const box = timeline.canvas.getBoundingClientRect(), at = timeline.drawn.find(one => one[2] > 20);
  timeline.canvas.dispatchEvent(new MouseEvent("click", { clientX: box.left + at[0] + 5, clientY: box.top + at[1] + 5 }));
  expect("a tap shows what is there", byId("tip").style.display === "block" && byId("tip").textContent.startsWith(at[4].name));
  const sums = [...document.querySelectorAll("#links tbody tr")].map(row => [...row.cells].map(cell => cell.textContent));
  const count = sums.reduce((sum, row) => sum + Number(row[1]), 0);
  expect("the links of all directions in a table", sums.length === 6 && count === data.links.directions.flatMap(expand).filter(load => load >= 0).length);
  const scrolled = document.querySelector("#profile .scroll"), name = scrolled.querySelector("tbody td"), before = name.getBoundingClientRect().left;
  scrolled.scrollLeft = 100;
  expect("names stay where the numbers are scrolled", scrolled.scrollLeft > 0 && name.getBoundingClientRect().left === before);
  expect("bug: ticks of 200 ps said 2 ps, and of 1.5 GiB 1.500 GiB", tick(200) === "200 ps" && short(bytes(1.5 * 2 ** 30)) === "1.5 GiB" && short(amount(1e4, "")) === "10 k");
  expect("what the buffers are for", byId("buffers").textContent.includes("saved by the loop while.1"));
  expect("nothing is wider than the page", document.documentElement.scrollWidth <= innerWidth);
  document.body.append(node("p", { id: "driven" }, "driven: " + (failures.join("; ") || "works")));
}, 300));
JS
    python3 -c "print(open('decoder.html').read().replace('</body>', '<script>' + open('drive.js').read() + '</script></body>'))" >driven.html
    "$browser" --headless=new --no-sandbox --disable-gpu --window-size=400,2000 --virtual-time-budget=5000 --dump-dom "file://$PWD/driven.html" >dom 2>console
    check "report on a phone: the controls work" sh -c 'grep -o "driven: [^<]*" dom | tail -1 | tee /dev/stderr | grep -q "driven: works"'
    # Of v4-8192 the program uses 64 chips.
    meshlo emulate "$SOURCE/examples/decoder_32b_step.mlir.xz" --on v4-8192 --report pod.html >/dev/null 2>&1
    "$browser" --headless=new --no-sandbox --disable-gpu --virtual-time-budget=3000 --dump-dom "file://$PWD/pod.html" >dom 2>console
    check "report of a part of a pod: planes without traffic are not drawn" grep -q 'Drawn: 1 of 16 planes' dom
    for width in 400 1440 2560; do
        "$browser" --headless=new --no-sandbox --disable-gpu --enable-logging=stderr --v=0 --window-size=$width,2000 \
            --virtual-time-budget=3000 --dump-dom "file://$PWD/comparison.html" >dom 2>console
        check "report of a comparison at $width: drawn without errors" sh -c '! grep -q CONSOLE console &&
            test "$(grep -o "<tr" dom | wc -l)" -gt 20 && test "$(grep -o "<canvas" dom | wc -l)" -ge 3'
        for scheme in 0 1; do
            "$browser" --headless=new --no-sandbox --disable-gpu --enable-logging=stderr --v=0 --window-size=$width,2000 \
                --blink-settings=preferredColorScheme=$scheme --virtual-time-budget=3000 --screenshot="decoder.$width.$scheme.png" \
                --dump-dom "file://$PWD/decoder.html" >dom 2>console
            check "report at $width, scheme $scheme: drawn without errors" sh -c '! grep -q CONSOLE console && test "$(grep -c "<tr" dom)" -gt 0 &&
                test "$(grep -o "<tr" dom | wc -l)" -gt 30 && test "$(grep -o "<canvas" dom | wc -l)" -ge 6'
        done
    done
fi
