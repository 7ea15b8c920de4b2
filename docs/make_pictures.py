#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: make_pictures.py MESHLO [--check]     Makes docs/pictures: screenshots of real reports, in light and dark, with Chromium.

Beside each is its structure: the headings, tables and drawings of the page, without numbers. With --check nothing is written; the
structure of today's reports must be that of the files. A changed report therefore asks for new pictures, and another font does not.
"""
import html.parser
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs/pictures"
# Name, program and slice, and the size of the picture: the upper part of the page.
REPORTS = (
    ("report", ("examples/decoder_32b_step.mlir.xz", "--on", "v5p-128"), (1240, 860)),
    ("timeline", ("examples/mlp_gradient_8192.hlo", "--on", "v5e-8"), (1000, 680)),
)
MOST_BYTES = 150_000


class Structure(html.parser.HTMLParser):
    """A page as lines: headings, links, columns of tables and drawings by the part that they are in."""

    def __init__(self, text):
        super().__init__()
        self.lines, self.open, self.skipped = [], None, 0
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        if tag in ("script", "style"):
            self.skipped += 1
        if tag == "section":
            self.lines.append("part " + dict(attributes).get("id", ""))
        if tag == "canvas":
            self.lines.append("drawing")
        self.open = tag

    def handle_endtag(self, tag):
        self.skipped -= tag in ("script", "style")

    def handle_data(self, text):
        if not self.skipped and self.open in ("h1", "h2", "h3", "th", "a", "button", "option"):
            text = re.sub(r"[0-9][0-9., ]*", "# ", text).strip()
            if text:
                self.lines.append(f"{self.open} {text}")
        self.open = None


def browse(browser, page, *arguments):
    """Opens a page in Chromium, and returns what it prints."""
    return subprocess.run(
        [browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=3000", *arguments,
         page.as_uri()], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout


def make(meshlo, browser, name, program, size, check, folder):
    """Makes the pictures of one report, or compares its structure. Returns whether it is as it should be."""
    page = folder / f"{name}.html"
    subprocess.run([meshlo, "emulate", ROOT / program[0], *program[1:], "--report", page], check=True, stdout=subprocess.DEVNULL)
    lines = Structure(browse(browser, page, "--window-size=1280,2000", "--dump-dom")).lines
    structure = "\n".join(lines) + "\n"
    file = PICTURES / f"{name}.structure"
    if check:
        same = file.exists() and file.read_text() == structure
        small = all(0 < (PICTURES / f"{name}-{scheme}.png").stat().st_size <= MOST_BYTES for scheme in ("light", "dark"))
        if not same or not small:
            print(f"docs/pictures/{name}: not current: docs/make_pictures.py build/release/bin/meshlo makes it anew", file=sys.stderr)
        return same and small
    PICTURES.mkdir(exist_ok=True)
    file.write_text(structure)
    for scheme, number in (("light", 1), ("dark", 0)):
        picture = PICTURES / f"{name}-{scheme}.png"
        browse(browser, page, f"--window-size={size[0]},{size[1]}", f"--blink-settings=preferredColorScheme={number}", f"--screenshot={picture}")
        if picture.stat().st_size > MOST_BYTES:
            print(f"{picture}: {picture.stat().st_size} bytes, at most {MOST_BYTES}", file=sys.stderr)
            return False
    return True


def main():
    arguments = [one for one in sys.argv[1:] if one != "--check"]
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if len(arguments) != 1:
        sys.exit(__doc__)
    if not browser:
        sys.exit("make_pictures.py needs Chromium (Debian: chromium)")
    meshlo = pathlib.Path(arguments[0]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        done = [make(meshlo, browser, *report, "--check" in sys.argv, pathlib.Path(folder)) for report in REPORTS]
    sys.exit(not all(done))


main()
