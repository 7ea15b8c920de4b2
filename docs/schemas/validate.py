#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: docs/schemas/validate.py DEFINITION [FILE]     Checks JSON (standard input without FILE) against a definition of
meshlo.schema.json, such as `emulate`. Exits with 1 and the place of the first difference.

It knows the keywords that the schema uses, and refuses others: type, properties, required, additionalProperties, items, $ref.
"""
import json
import pathlib
import sys

SCHEMA = json.loads(pathlib.Path(__file__).with_name("meshlo.schema.json").read_text(encoding="utf-8"))
KNOWN = {"title", "description", "type", "properties", "required", "additionalProperties", "items", "$ref"}
TYPES = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


def check(value, schema, place):
    assert set(schema) <= KNOWN, f"keywords of {place}: {set(schema) - KNOWN}"
    if "$ref" in schema:
        check(value, SCHEMA["$defs"][schema["$ref"].removeprefix("#/$defs/")], place)
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(TYPES[kind](value) for kind in kinds):
        raise ValueError(f"{place}: {json.dumps(value)[:60]} is not of type {' or '.join(kinds)}")
    if isinstance(value, dict):
        for key in schema.get("required", []):
            if key not in value:
                raise ValueError(f"{place}: {key} is missing")
        for key, member in value.items():
            other = schema.get("additionalProperties", {})
            one = schema.get("properties", {}).get(key, other)
            if one is False:
                raise ValueError(f"{place}: {key} is not in the schema")
            check(member, one if isinstance(one, dict) else {}, f"{place}.{key}")
    if isinstance(value, list):
        for index, item in enumerate(value):
            check(item, schema.get("items", {}), f"{place}[{index}]")


def main():
    if len(sys.argv) < 2 or sys.argv[1] not in SCHEMA["$defs"]:
        sys.exit(f"usage: validate.py {'|'.join(SCHEMA['$defs'])} [FILE]")
    text = pathlib.Path(sys.argv[2]).read_text(encoding="utf-8") if len(sys.argv) > 2 else sys.stdin.read()
    try:
        check(json.loads(text), SCHEMA["$defs"][sys.argv[1]], "$")
    except ValueError as problem:
        sys.exit(str(problem))


if __name__ == "__main__":
    main()
