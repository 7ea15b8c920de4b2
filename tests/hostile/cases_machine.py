# SPDX-License-Identifier: Apache-2.0
"""Machines, meshes, shardings, faults, pods in XML, baselines in JSON, and programs that must not be run."""
import re

from cases import DOT, NAMED, PARSE, PARSE_OR_NAMED, RUN, SCALAR_ADD, USAGE, Case, program

TOPOLOGIES = [
    "", " ", "v", "v2", "v2-", "v2-0", "v2--8", "v2-7", "v2-9999999999", "v2-99999999999999999999", "v9-8", "v4:", "v4:2",
    "v4:2x2x2x2", "v4:0x2x2", "v4:-2x2x2", "v4:2x2xx2", "v4:2x2x2x", "v4:999999999x999999999x999999999", "v5e:3x5", "v5e:4x",
    "v5e:1000000x1000000", "0xv5e-16", "-2xv5e-16", "9999999999xv5e-16", "2xv5e", "xv5e-16", "2x2xv5e-16", "v5e-16x2", "cpu:", "cpu:0",
    "cpu:-1", "cpu:x", "cpu:99999999999", "cpu:8:8", "gpu:8", "v2-8 ", " v2-8", "v2-8,v2-8", "V2-8\n", "../../etc/passwd",
    "/etc/passwd", "/dev/null", ".", "\u00e9", "%s%n%s%n", "v4:2x2x2#ring", "a" * 100000,
]
MESHES = [
    "", "=", "a", "a=", "=4", "a=0", "a=-4", "a=4,a=2", "a=4,,b=2", "a=4,b", "a=4 b=2", "a=x", "a=4.5", "a=99999999999999999999",
    "a=4294967296,b=4294967296", "a=3", "a=16", "a=8,b=2", "a=4;b=2", ",", "a=4,", "a==4", "\u00e9=0", "a" * 10000 + "=0",
]
SHARDS = [
    "", "p0", "=a,-", "p9=a,-", "p0=c,-", "p0=a,-,-", "p0=a,a", "p0=a+a,-", "p0=a+,-", "p0=+a,-", "r9=a,-", "q=a,-",
    "p0=a,-;p1=-,-", "p-1=a,-", "p99999999999999999999=a,-", "p0=a b,-", "p0=((a,-", "p0=a),-", "p0=" + "a+" * 10000 + "a,-", "r0=c,-",
]
FAULTS = ["", ",", "link", "link:", "link:0-1", "link:0-1:", "link:0-1:-1", "link:0-99:0.5", "link:0-0:0.5", "link:0-1:x", "link:0:0.5",
          "straggler:", "straggler:0", "straggler:99:2", "straggler:0:-1", "straggler:0:0", "straggler:0:nan", "dead:", "dead:99", "dead:-1",
          "dead:x", "fire:3", "dead:0,dead", "link:0-1:inf", "straggler:0:1e999"]
ASSIGNMENTS = ["", ",", "0", "0,1,2", "0,0,1,2", "0,1,2,9", "0,1,2,-1", "0,1,2,x", "0,1,2,3,4", "0,1,2,99999999999999999999", "0 1 2 3"]

POD = """<tpupod version="1">
 <chip kind="TPU v5 lite" cores="1" megacore="false">
  <hbm bytes="17179869184" usable="16911433728" bps="8.20e11"/>
  <core hz="1.5e9"><mxu count="4" dim="128"/><vpu lanes="128" sublanes="8" alus="4"/><vmem bytes="134217728" bps="1.78e13"/></core>
  <peak dtype="bf16" flops="1.97e14"/><peak dtype="s8" flops="3.94e14"/></chip>
 <host bounds="2 2 1" pcie_bps="1.5e10"/>
 <ici link_bps="5.5e10" hop_ns="1000" eff="0.9" wrap="full-axis"/>
 <slice name="v5e-16" dims="4 4" wrap="false false"/>
 <dcn host_bps="2.5e10" latency_ns="20000"/>
</tpupod>
"""
# name -> (old text, new text)
PODS = {
    "no root": (POD, ""), "another root": ("tpupod", "gpupod"), "version 2": ('version="1"', 'version="2"'),
    "no version": (' version="1"', ""), "no slice": (' <slice name="v5e-16" dims="4 4" wrap="false false"/>\n', ""),
    "no chip kind": (' kind="TPU v5 lite"', ""), "cores of nine": ('cores="1"', 'cores="9"'), "an unknown like": ('cores="1"', 'like="v99"'),
    "an unknown element": ("<host", "<hoist/><host"), "an unknown attribute": ('eff="0.9"', 'colour="red"'),
    "bytes below zero": ('bytes="17179869184"', 'bytes="-1"'), "bytes beyond 64 bits": ('bytes="17179869184"', 'bytes="' + "9" * 40 + '"'),
    "bytes of letters": ('bytes="17179869184"', 'bytes="many"'), "more usable than there is": ('usable="16911433728"', 'usable="99911433728"'),
    "no speed": ('bps="8.20e11"', 'bps="0"'), "an infinite speed": ('bps="8.20e11"', 'bps="INF"'), "a speed of NaN": ('bps="8.20e11"', 'bps="NaN"'),
    "a matrix unit of 100": ('dim="128"', 'dim="100"'), "lanes of 64": ('lanes="128"', 'lanes="64"'), "dims of zero": ('dims="4 4"', 'dims="0 4"'),
    "dims below zero": ('dims="4 4"', 'dims="-4 4"'), "dims of four": ('dims="4 4"', 'dims="2 2 2 2"'), "dims immense": ('dims="4 4"', 'dims="99999 99999"'),
    "dims beyond 64 bits": ('dims="4 4"', 'dims="99999999999999999999 4"'), "no dims": ('dims="4 4" ', ""),
    "hosts that do not divide": ('bounds="2 2 1"', 'bounds="3 3 1"'), "a wrap flag too many": ('wrap="false false"', 'wrap="false false false false"'),
    "a wrap of letters": ('wrap="full-axis"', 'wrap="sometimes"'), "efficiency above one": ('eff="0.9"', 'eff="9"'),
    "an unknown type": ('dtype="s8"', 'dtype="q8"'), "an unclosed element": ("</tpupod>", ""), "an attribute twice": ('eff="0.9"', 'eff="0.9" eff="0.8"'),
    "text where none may be": ("<host", "hello<host"), "latency below zero": ('latency_ns="20000"', 'latency_ns="-1"'),
    "an external entity": ("<tpupod", '<!DOCTYPE t [<!ENTITY x SYSTEM "file:///etc/passwd">]><tpupod'),
    "a billion laughs": ("<tpupod", "<!DOCTYPE t [" + '<!ENTITY a "ha">' + "".join(
        f'<!ENTITY {chr(98 + i)} "{("&" + chr(97 + i) + ";") * 10}">' for i in range(9)) + "]><tpupod"),
    "100,000 elements deep": (POD, "<a>" * 100000), "bytes that are no UTF-8": ("TPU v5 lite", "\udcff"),
}

BASELINES = ["", "{", "[]", "null", "3", '"x"', "{}", '{"collectives":3}', '{"collectives":[3]}', '{"collectives":[{}]}', "[" * 100000,
             '{"a":' * 50000, '{"collectives":[],"total_bytes_per_device":"many"}', '{"collectives":[],"total_bytes_per_device":-1}',
             '{"collectives":[],"total_bytes_per_device":1e999}', '{"num_partitions":8,"num_partitions":8', "{'a':1}", '{"a":01}', '{"a":1}}',
             '{"a":"\\u12"}', '{"a":"\udcff"}', "\0"]

DEADLOCK = """HloModule deadlock, num_partitions=2
""" + SCALAR_ADD + """left {
  x = f32[] parameter(0)
  ROOT r = f32[] all-reduce(x), channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true, to_apply=add
}
right {
  x = f32[] parameter(0)
  ROOT r = f32[] negate(x)
}
ENTRY main {
  p = f32[] parameter(0)
  i = u32[] partition-id()
  z = u32[] constant(0)
  first = pred[] compare(i, z), direction=EQ
  ROOT c = f32[] conditional(first, p, p), true_computation=left, false_computation=right
}
"""


def running():
    """Programs that are well formed, and cannot be run or placed."""
    huge = program("i = f32[100000000000] iota(), iota_dimension=0", "r = f32[100000000000] negate(i)")
    yield Case("run: collectives that do not match", ["run", "f.hlo", "--partitioned", "--on", "cpu:2"], {"f.hlo": DEADLOCK}, RUN)
    yield Case("run: more memory than there is", ["run", "f.hlo"], {"f.hlo": huge}, frozenset({5, 6}))
    yield Case("run: more memory than there is, evaluated", ["run", "f.hlo", "--engine", "eval"], {"f.hlo": huge}, frozenset({5, 6}))
    yield Case("run: inputs larger than memory", ["run", "f.hlo"], {"f.hlo": program("p = f32[100000000000000] parameter(0)")}, frozenset({5, 6}))
    yield Case("emulate: more memory than the slice has", ["emulate", "f.hlo", "--topology", "v2-8"], {"f.hlo": huge}, frozenset({5}))
    yield Case("run: an unknown custom call", ["run", "f.hlo"],
               {"f.hlo": program("p = f32[4] parameter(0)", 'r = f32[4] custom-call(p), custom_call_target="nobody_knows_it"')}, NAMED,
               says="nobody_knows_it")
    yield Case("run: infeed without a host", ["run", "f.hlo"],
               {"f.hlo": program("t = token[] after-all()", "r = (f32[4], token[]) infeed(t)")}, frozenset({4, 6}))
    yield Case("run: receive without a sender", ["run", "f.hlo"],
               {"f.hlo": program("t = token[] after-all()", "v = (f32[4], u32[], token[]) recv(t), channel_id=1",
                                 "r = (f32[4], token[]) recv-done(v), channel_id=1")}, frozenset({4, 6}))
    yield Case("run: a group of devices that do not exist", ["run", "f.hlo", "--partitioned", "--on", "cpu:2"],
               {"f.hlo": "HloModule m, num_partitions=2\n" + SCALAR_ADD + "ENTRY e {\n  p = f32[] parameter(0)\n  ROOT r = f32[] "
                         "all-reduce(p), channel_id=1, use_global_device_ids=true, replica_groups={{0,5}}, to_apply=add\n}\n"},
               PARSE_OR_NAMED)
    yield Case("run: a program of more devices than there are", ["run", "f.hlo", "--on", "cpu:2"],
               {"f.hlo": "HloModule m, num_partitions=4\nENTRY e {\n  ROOT p = f32[8] parameter(0), sharding={devices=[4]<=[4]}\n}\n"},
               USAGE)
    yield Case("convert: a call chain of 5,000", ["convert", "f.hlo"], {"f.hlo": "HloModule m\nf0 {\n  ROOT p = f32[] parameter(0)\n}\n" + "".join(
        f"f{i} {{\n  p = f32[] parameter(0)\n  ROOT r = f32[] call(p), to_apply=f{i - 1}\n}}\n" for i in range(1, 5000)) +
        "ENTRY e {\n  p = f32[] parameter(0)\n  ROOT r = f32[] call(p), to_apply=f4999\n}\n"}, PARSE_OR_NAMED)


# Each attribute of a description without its value, or with one of these; only attributes that are free text may have some.
ODD_VALUES = ["", " ", "-1", "0", "x", "9" * 40, "1e400", "NaN", "4 4 4 4", "1" * 5000, "\u00e9", "&#10;", "4,4", "0x10", "true"]


def odd_pods():
    for number, match in enumerate(re.finditer(r' (\w+)="[^"]*"', POD)):
        for value in [*ODD_VALUES, None]:
            attribute = "" if value is None else f' {match.group(1)}="{value}"'
            yield Case(f"pod: {match.group(1)} {number} {str(value)[:12]!r}", ["devices", "./pod.xml"],
                       {"pod.xml": POD[:match.start()] + attribute + POD[match.end():]}, PARSE, says="./pod.xml:", survive=True)


def all_cases(_):
    program_file = {"dot.hlo": DOT}
    for i, name in enumerate(TOPOLOGIES):
        verb = [["devices", name], ["topology", name], ["emulate", "dot.hlo", "--topology", name], ["run", "dot.hlo", "--on", name]][i % 4]
        codes = USAGE if name != "2x2xv5e-16" else frozenset({2, 4})
        yield Case(f"topology {i}: {name[:20].strip()}", verb, program_file, codes)
    for i, name in enumerate(MESHES):
        verb = [["topology", "v2-8", "--mesh", name], ["partition", "dot.hlo", "--on", "cpu:8", "--mesh", name],
                ["shardings", "--shape", "8", "--spec", "a", "--on", "v2-8", "--mesh", name]]
        valid = {"a=3": 2, "a=16": 2}
        for j, arguments in enumerate(verb):
            if name in valid and j == 1 or name == "a=3":
                continue  # a mesh of three devices of eight is good in places
            yield Case(f"mesh {i} of {arguments[0]}: {name[:20]}", arguments, program_file, frozenset({1, 2}))
    for i, name in enumerate(SHARDS):
        yield Case(f"shard {i}: {name[:20]}", ["partition", "dot.hlo", "--mesh", "a=4,b=2", "--shard", name], program_file, USAGE)
    for i, name in enumerate(FAULTS):
        yield Case(f"fault {i}: {name}", ["emulate", "dot.hlo", "--topology", "v2-8", "--fault", name], program_file, USAGE)
    for i, name in enumerate(ASSIGNMENTS):
        yield Case(f"assignment {i}: {name}", ["run", "dot.hlo", "--on", "cpu:8", "--mesh", "a=4", "--device-assignment", name],
                   program_file, USAGE)
    for name, (old, new) in PODS.items():
        assert old in POD, name
        yield Case(f"pod: {name}", ["devices", "./pod.xml"],
                   {"pod.xml": POD.replace(old, new, 1).encode("utf-8", "surrogateescape")}, PARSE, says="./pod.xml:")
    yield from odd_pods()
    for i, text in enumerate(BASELINES):
        yield Case(f"baseline {i}: {text[:20]!r}", ["check", "dot.hlo", "--mesh", "a=4", "--shard", "p0=a,-", "--baseline", "b.json"],
                   {**program_file, "b.json": text.encode("utf-8", "surrogateescape")}, frozenset({2, 3}))
    yield from running()
