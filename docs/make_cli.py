#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: docs/make_cli.py MESHLO [--check]     Writes the tables of options in docs/cli.md from `meshlo VERB --help`.

With --check nothing is written: the exit code is 1, with what differs, when the file says something else than the command,
or when a verb is missing in either.
"""
import difflib
import pathlib
import re
import subprocess
import sys

PAGE = pathlib.Path(__file__).with_name("cli.md")
VERBS = pathlib.Path(__file__).parents[1] / "tools" / "verbs.def"


def help_of(meshlo, *arguments):
    return subprocess.run([meshlo, *arguments, "--help"], check=True, capture_output=True, text=True).stdout


def rows(text, heading):
    """(name, explanation) of each line of a section of the help; a long name has its explanation on the next line."""
    section = re.search(rf"^{heading}:\n((?:  .*\n)+)", text, re.M)
    name = None
    for line in section.group(1).splitlines() if section else []:
        begin, end = re.fullmatch(r"  (\S.*?)(?:  +(\S.*))?|  +(\S.*)", line).group(1, 2) if line[2] != " " else (None, line.strip())
        # Help of a name with an ellipsis is two columns nearer: one blank or more is what separates them.
        name = begin or name
        if end:
            yield name, end


def table(head, entries):
    escaped = ((name.replace("|", "\\|"), text.replace("|", "\\|")) for name, text in entries)
    lines = [f"| `{name}` | {text} |" for name, text in escaped]
    return "\n".join([f"| {head} | |", "|---|---|", *lines]) + "\n" if lines else ""


def main():
    meshlo, page = sys.argv[1], PAGE.read_text()
    verbs = re.findall(r"^CLI_VERB\((\w+)\)", VERBS.read_text(), re.M)
    described = re.findall(r"^### meshlo (\w+)", page, re.M)
    if sorted(verbs) != sorted(described):
        sys.exit(f"verbs.def and docs/cli.md differ in the verbs {sorted(set(verbs) ^ set(described))}")

    def options(match):
        verb = match.group(1)
        return f"<!-- options of {verb} -->\n{table('option', rows(help_of(meshlo, verb), 'Options'))}<!-- end -->"

    made = re.sub(r"<!-- options of (\w+) -->\n.*?<!-- end -->", options, page, flags=re.S)
    made = re.sub(r"<!-- environment -->\n.*?<!-- end -->",
                  lambda _: f"<!-- environment -->\n{table('variable', rows(help_of(meshlo), 'Environment'))}<!-- end -->", made, flags=re.S)
    missing = [verb for verb in verbs if f"<!-- options of {verb} -->" not in made]
    if missing:
        sys.exit(f"docs/cli.md has no table of options of {missing}")
    if "--check" not in sys.argv[2:]:
        PAGE.write_text(made)
    elif made != page:
        sys.exit("".join(difflib.unified_diff(page.splitlines(True), made.splitlines(True), "docs/cli.md", "meshlo --help"))
                 + "docs/cli.md is not what the command says: docs/make_cli.py MESHLO writes it")


main()
