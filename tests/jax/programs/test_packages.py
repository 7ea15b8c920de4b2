# SPDX-License-Identifier: Apache-2.0
"""The recipes of packages say the same: the conda recipe, pyproject.toml, the Dockerfile and packages.txt."""
import pathlib
import re
import tomllib

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
# The libraries that are linked, by their names on Debian, conda-forge and in Red Hat's distributions; None: not needed there.
LIBRARIES = {
    "libxml2-dev": ("libxml2-devel", "libxml2-devel"),
    "libhwloc-dev": ("libhwloc", "hwloc-devel"),
    "liblzma-dev": ("liblzma-devel", "xz-devel"),
    "zlib1g-dev": ("zlib", "zlib-devel"),
    "libzstd-dev": ("zstd", "libzstd-devel"),
}
# Opened at run time where they are there.
OPTIONAL = {"libucx-dev", "nettle-dev"}


def names(requirements):
    return {re.split(r"[ <>=\[]", one)[0] for one in requirements}


def test_the_conda_recipe_needs_what_the_wheel_needs():
    recipe = yaml.safe_load((ROOT / "conda/recipe.yaml").read_text())
    project, needs = PROJECT["project"], recipe["requirements"]
    assert recipe["context"]["version"] == project["version"] and recipe["context"]["name"] == project["name"]
    assert recipe["about"]["license"] == project["license"] and (ROOT / recipe["about"]["license_file"]).exists()
    plain = {one.replace(" ", "") for one in needs["run"]}
    assert plain == {one.replace(" ", "") for one in project["dependencies"]} | {"python" + project["requires-python"]}
    assert names(PROJECT["build-system"]["requires"]) <= names(needs["host"])
    assert {conda for conda, _ in LIBRARIES.values()} <= names(needs["host"])


def test_every_recipe_has_the_libraries_of_packages_txt():
    rows = [line.split() for line in (ROOT / "packages.txt").read_text().splitlines() if line and not line.startswith("#")]
    libraries = {name for name, group, *_ in rows if group == "build" and name.endswith("-dev") and name != "libc6-dev"}
    assert libraries - OPTIONAL == set(LIBRARIES)
    wheels = PROJECT["tool"]["cibuildwheel"]["before-all"]
    assert {red_hat for _, red_hat in LIBRARIES.values()} <= set(wheels.split())
