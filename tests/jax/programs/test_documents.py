# SPDX-License-Identifier: Apache-2.0
"""The programs in the documents run as they are printed."""
import os
import pathlib
import re
import subprocess
import sys

import pytest

DOCUMENTS = pathlib.Path(__file__).resolve().parents[3] / "docs"


@pytest.mark.parametrize("name", ["README.md", "cookbook.md", "python.md", "tutorial.md"])
def test_the_blocks_of_a_document_are_one_program(name, tmp_path):
    blocks = re.findall(r"^```python\n(.*?)^```", (DOCUMENTS / name).read_text(), re.MULTILINE | re.DOTALL)
    assert blocks
    environment = {key: value for key, value in os.environ.items() if key not in ("JAX_PLATFORMS", "MESHLO_TOPOLOGY")}
    environment["MESHLO_UPDATE"] = "1"  # a new plan's file is written without a complaint
    done = subprocess.run([sys.executable, "-c", "\n".join(blocks)], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "ms" in done.stdout


def test_the_site_has_every_document():
    listed = re.findall(r": (\S+\.md)$", (DOCUMENTS / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(page.name for page in DOCUMENTS.glob("*.md"))


def test_links_between_documents_lead_somewhere():
    broken = []
    for document in (*DOCUMENTS.glob("*.md"), DOCUMENTS.parent / "README.md"):
        text = document.read_text()
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text) + re.findall(r'src(?:set)?="([^"]+)"', text):
            if "://" not in target and not (document.parent / target).exists():
                broken.append(f"{document.name}: {target}")
    assert not broken, broken
