#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: make_site.py OUT     Makes a static site of the documents in the folder OUT, with MkDocs (pip install mkdocs).

The pages are those of this folder. Files of the repository to which they link are copied beside them. A link that leads nowhere
is an error.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

DOCS = pathlib.Path(__file__).resolve().parent
LINK = re.compile(r"\]\(\.\./([^)#]+)((?:#[^)]*)?)\)")


def stage(folder):
    """Copies the documents and what they link to into a folder; links out of docs/ become links into its folder `source`."""
    for page in DOCS.glob("*.md"):
        text = page.read_text()
        for target, _ in LINK.findall(text):
            copy = folder / "source" / target
            copy.parent.mkdir(parents=True, exist_ok=True)
            if target.endswith(".md"):  # a page too, whose links back to docs/ lead one folder higher here
                copy.write_text((DOCS.parent / target).read_text().replace("](../docs/", "](../../"))
            else:
                shutil.copy(DOCS.parent / target, copy)
        (folder / page.name).write_text(LINK.sub(r"](source/\1\2)", text))
    for name in ("schemas", "pictures"):
        shutil.copytree(DOCS / name, folder / name)
    for picture in DOCS.glob("*.svg"):
        shutil.copy(picture, folder)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        stage(pathlib.Path(folder))
        sys.exit(subprocess.run(
            [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", DOCS / "mkdocs.yml", "--site-dir",
             pathlib.Path(sys.argv[1]).resolve()], env={**os.environ, "MESHLO_SITE_SOURCE": folder}, check=False).returncode)


main()
