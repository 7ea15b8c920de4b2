#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares our reader and printer with XLA's own, on the texts of XLA's own tests (which are not in this repository).

usage: compare_with_xla.py FOLDER [--library PATH] [--cache FILE] [--only PATTERN] [--write OUT]     needs jaxlib 0.10.2

FOLDER holds XLA's sources: every raw string of a `*_test.cc` or a header of tests that looks like HLO, and every `.hlo`
file, is a text. Of each: do both accept it, do the long, short and canonical forms agree byte for byte, does the
HloModuleProto that XLA makes of it read back here as it does there, and ours there. Known differences are listed in
known_differences.txt by the text's hash, with the reason. --write puts each differing text and both outcomes into OUT;
--cache keeps what XLA answered from run to run. Prints a count a class; exits 1 when a text differs that is not listed.
"""
import argparse
import collections
import ctypes
import hashlib
import math
import os
import pathlib
import pickle
import re
import resource
import signal
import sqlite3
import sys
import zlib

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
HERE = pathlib.Path(__file__).resolve().parent
FORMS = ("long", "short", "canonical")
SECONDS = 30  # of processor time for one text

# Imported before any fork: it takes half a second.
from jaxlib import _hlo  # noqa: E402


class ParseOptions(ctypes.Structure):
    _fields_ = [("file", ctypes.c_char_p), ("elided", ctypes.c_int)]


class PrintOptions(ctypes.Structure):
    _fields_ = [("flags", ctypes.c_bool * 17), ("indent", ctypes.c_int)]


class Text(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("length", ctypes.c_size_t), ("capacity", ctypes.c_size_t), ("failed", ctypes.c_bool)]


class Refused(Exception):
    pass


class Ours:
    """libmeshlo by ctypes, the three calls that this needs."""

    def __init__(self, path):
        self.library = library = ctypes.CDLL(str(path))
        for form in ("default", "short", "canonical"):
            getattr(library, "hlo_print_" + form).restype = PrintOptions
        for name in ("hlo_parse", "hlo_print", "hlo_module_to_proto", "hlo_module_from_proto"):
            getattr(library, name).restype = ctypes.c_void_p
        library.hlo_status_to_text.restype = ctypes.c_char_p

    def check(self, status):
        if status:
            raise Refused(self.library.hlo_status_to_text(ctypes.c_void_p(status)).decode(errors="replace"))

    def parse(self, text):
        module = ctypes.c_void_p()
        data = text.encode()
        options = ParseOptions(b"text", 2)  # elided constants count up, as XLA fills them
        self.check(self.library.hlo_parse(data, ctypes.c_size_t(len(data)), ctypes.byref(options), ctypes.byref(module)))
        return module

    def from_proto(self, data):
        module = ctypes.c_void_p()
        self.check(self.library.hlo_module_from_proto(data, ctypes.c_size_t(len(data)), ctypes.byref(module)))
        return module

    def form(self, module, name):
        options = getattr(self.library, "hlo_print_" + name.replace("long", "default"))()
        text = Text()
        self.check(self.library.hlo_print(module, ctypes.byref(options), ctypes.byref(text)))
        return self.take(text).decode(errors="replace")

    def proto(self, module):
        text = Text()
        self.check(self.library.hlo_module_to_proto(module, ctypes.byref(text)))
        return self.take(text)

    def take(self, text):
        data = ctypes.string_at(text.data, text.length)
        self.library.hlo_text_free(ctypes.byref(text))
        return data


def xla_form(module, name):
    return module.to_string() if name == "long" else module.to_string(
        _hlo.HloPrintOptions.short_parsable() if name == "short" else _hlo.HloPrintOptions.canonical())


def in_child(function, *arguments):
    """What the function returns, ('refused', message) or ('aborts', ''). XLA aborts on some texts and keeps counters."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        os.close(read)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        with os.fdopen(write, "wb") as pipe:
            pickle.dump(outcome(function, *arguments), pipe)
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        data = pipe.read()
    os.waitpid(child, 0)
    return pickle.loads(data) if data else ("aborts", "")


def outcome(function, *arguments):
    try:
        return ("ok", function(*arguments))
    except Exception as error:  # what a library refuses is what we came to see
        return ("refused", str(error))


def ask_xla(text):
    module = _hlo.hlo_module_from_text(text)
    forms = {name: xla_form(module, name) for name in FORMS}
    proto = module.as_serialized_hlo_module_proto()
    return forms, proto


def reread_by_xla(proto):
    return _hlo.HloModule.from_serialized_hlo_module_proto(proto).to_string()


def ask_ours(ours, text):
    module = ours.parse(text)
    result = {name: ours.form(module, name) for name in FORMS}, ours.proto(module)
    ours.library.hlo_module_free(module)
    return result


def reread_by_us(ours, proto):
    module = ours.from_proto(proto)
    result = ours.form(module, "long")
    ours.library.hlo_module_free(module)
    return result


def texts(folder):
    """(name, text) of everything in the folder that looks like HLO, each text once."""
    seen = set()
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or path.suffix not in (".cc", ".h", ".hlo", ".hlotxt"):
            continue
        content = path.read_text(errors="replace")
        found = [content] if path.suffix.startswith(".hlo") else [m.group(2) for m in re.finditer(
            r'R"([a-zA-Z0-9_]*)\((.*?)\)\1"', content, re.DOTALL)]
        if path.suffix.startswith(".hlo"):
            found = re.split(r"^// -----.*$", content, flags=re.MULTILINE)
        for number, text in enumerate(found):
            if not re.search(r"\bHloModule\b|\bENTRY\b|= .*\(.*\)", text) or text in seen or "CHECK:" in text and "//" not in text:
                continue
            seen.add(text)
            yield f"{path.relative_to(folder)}#{number}", text


class Helper:
    """Our library in a process of its own, which is started again when a text ends it."""

    def __init__(self, ours):
        self.ours, self.child = ours, None

    def start(self):
        ask, answer = os.pipe(), os.pipe()
        self.child = os.fork()
        if self.child == 0:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            os.close(ask[1])
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            with os.fdopen(ask[0], "rb") as questions, os.fdopen(answer[1], "wb") as answers:
                while True:
                    function, argument = pickle.load(questions)
                    signal.alarm(SECONDS)
                    pickle.dump(outcome(function, self.ours, argument), answers)
                    answers.flush()
                    signal.alarm(0)
        os.close(ask[0])
        os.close(answer[1])
        self.questions, self.answers = os.fdopen(ask[1], "wb"), os.fdopen(answer[0], "rb")

    def ask(self, function, argument):
        if not self.child:
            self.start()
        pickle.dump((function, argument), self.questions)
        self.questions.flush()
        try:
            return pickle.load(self.answers)
        except EOFError:
            os.waitpid(self.child, 0)
            self.child = None
            return ("aborts", "")


class Xla:
    """XLA's answers, each asked once: a fork of this process takes longer than the question."""

    def __init__(self, path):
        self.store = sqlite3.connect(path or ":memory:")
        self.store.execute("create table if not exists answers (key text primary key, answer blob)")

    def ask(self, function, argument):
        data = argument if isinstance(argument, bytes) else argument.encode()
        key = function.__name__ + hashlib.sha256(data).hexdigest()
        found = self.store.execute("select answer from answers where key = ?", (key,)).fetchone()
        if found:
            return pickle.loads(zlib.decompress(found[0]))
        answer = in_child(function, argument)
        with self.store:
            self.store.execute("insert or replace into answers values (?, ?)", (key, zlib.compress(pickle.dumps(answer), 1)))
        return answer


def plain(text):
    """Without the metadata inside of shardings, which our protobuf does not carry."""
    return re.sub(r"(?<!,) metadata=\{(?:[^{}]|\{[^{}]*\})*\}", "", text)


def elements_of_elided(text):
    """The most elements that a constant({...}) asks for: both parsers make them up."""
    most = 0
    for dims in re.findall(r"\[([\d, ]*)\]\S*\s+constant\(\{\.\.\.\}\)", text):
        most = max(most, math.prod(int(d) for d in dims.split(",") if d.strip()))
    return most


def classify(xla, ours, text):
    """(class, XLA's outcome, ours) of a text."""
    if elements_of_elided(text) > 1 << 22:
        return "too large", "", ""
    theirs, their_result = xla.ask(ask_xla, text)
    mine, my_result = ours.ask(ask_ours, text)
    if mine == "aborts":
        return "we crash", their_result, ""
    if theirs != "ok" and mine == "ok":
        return "only we accept" if theirs == "refused" else "aborts XLA", their_result, my_result[0]["long"]
    if theirs != "ok":
        return ("both refuse" if re.match(r"text:\d+:\d+:", my_result) else "refused without a place"), their_result, my_result
    if mine != "ok":
        return "only XLA accepts", their_result[0]["long"], my_result
    for name in FORMS:
        if their_result[0][name] != my_result[0][name]:
            return f"{name} form differs", their_result[0][name], my_result[0][name]
    there = xla.ask(reread_by_xla, their_result[1])
    if there[0] != "ok":
        return "same text, XLA refuses its own protobuf", there[1], ""
    back = ours.ask(reread_by_us, their_result[1])
    if plain(back[1]) != plain(there[1]):
        return "XLA's protobuf differs here", there[1], back[1]
    back = xla.ask(reread_by_xla, my_result[1])
    if plain(back[1]) != plain(there[1]):
        return "our protobuf differs there", there[1], back[1]
    return "same text, same protobuf", "", ""


GOOD = ("same text, same protobuf", "same text, XLA refuses its own protobuf", "both refuse", "aborts XLA", "too large")


def known_differences():
    known = {}
    for line in (HERE / "known_differences.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            key, _, reason = line.partition(" ")
            known[key] = reason
    return known


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--library", default=HERE.parents[1] / "build/release/lib/libmeshlo.so.0")
    parser.add_argument("--cache", type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--write", type=pathlib.Path)
    arguments = parser.parse_args()
    ours, xla, known = Helper(Ours(arguments.library)), Xla(arguments.cache), known_differences()
    counts, unknown = collections.Counter(), 0
    for name, text in texts(arguments.folder):
        key = hashlib.sha256(text.encode()).hexdigest()[:12]
        if arguments.only and not re.search(arguments.only, f"{name} {key}"):
            continue
        kind, theirs, mine = classify(xla, ours, text)
        listed = kind not in GOOD and key in known
        counts[kind + (" (listed)" if listed else "")] += 1
        if kind in GOOD or listed:
            continue
        unknown += 1
        print(f"{key} {kind}: {name}", flush=True)
        if arguments.write:
            arguments.write.mkdir(parents=True, exist_ok=True)
            for suffix, content in (("text", text), ("xla", theirs), ("ours", mine)):
                (arguments.write / f"{kind.replace(' ', '_')}-{key}.{suffix}").write_text(content if isinstance(content, str) else repr(content))
    for kind, count in sorted(counts.items()):
        print(f"{count:6d} {kind}")
    return unknown > 0


sys.exit(main())
