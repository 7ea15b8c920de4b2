# SPDX-License-Identifier: Apache-2.0
"""Protobuf, StableHLO bytecode, compressed programs, .npy and .npz: cut, bent, or claiming what they do not hold."""
import gzip
import io
import lzma
import re
import os
import struct
import subprocess
import zipfile

from cases import DOT, PARSE, PARSE_OR_NAMED, RICH, USAGE, Case, mix

HERE = os.path.dirname(os.path.abspath(__file__))


def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number, payload):
    """A length-delimited field (bytes) or a varint (int) of a protobuf message."""
    if isinstance(payload, int):
        return varint(number << 3) + varint(payload)
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def nested(number, depth):
    message = b""
    for _ in range(depth):
        message = field(number, message)
    return message


def instruction(name, opcode, more=b"", identifier=1, shape=None):
    """An HloInstructionProto: name 1, opcode 2, shape 3, id 35."""
    return field(1, name.encode()) + field(2, opcode.encode()) + field(3, shape or SHAPE) + field(35, identifier) + more


# ShapeProto: element_type 2 (F32 is 11), dimensions 3. HloComputationProto: name 1, instructions 2, id 5, root_id 6.
# HloModuleProto: name 1, entry_computation_name 2, computations 3, id 5, entry_computation_id 6.
SHAPE = field(2, 11) + field(3, varint(4))


def computation(*instructions, root=1, name="e"):
    return field(1, name.encode()) + b"".join(field(2, i) for i in instructions) + field(5, 1) + field(6, root)


def module(*computations, entry=1):
    return field(1, b"m") + field(2, b"e") + b"".join(field(3, c) for c in computations) + field(6, entry)


PARAMETER = instruction("p", "parameter")
NEGATE = instruction("n", "negate", field(36, varint(1)), identifier=2)


def proto_cases(good):
    cases = {
        "nothing but a name": field(1, b"m"),
        "a computation of nothing": module(b""),
        "no entry": module(computation(PARAMETER), entry=7),
        "a root that does not exist": module(computation(PARAMETER, root=9)),
        "one id twice": module(computation(PARAMETER, PARAMETER)),
        "an operand that does not exist": module(computation(PARAMETER, instruction("n", "negate", field(36, varint(5)), 2), root=2)),
        "an operand that comes later": module(computation(instruction("n", "negate", field(36, varint(2)), 1),
                                                          instruction("p", "parameter", identifier=2))),
        "an op that uses itself": module(computation(instruction("n", "negate", field(36, varint(1)), 1))),
        "an unknown opcode": module(computation(instruction("n", "frobnicate"))),
        "an opcode of a million letters": module(computation(instruction("n", "x" * 1000000))),
        "an unknown element type": module(computation(instruction("p", "parameter", shape=field(2, 99) + field(3, varint(4))))),
        "a negative dimension": module(computation(instruction("p", "parameter", shape=field(2, 11) + field(3, varint(2**64 - 3))))),
        "dimensions that overflow": module(computation(instruction(
            "p", "parameter", shape=field(2, 11) + field(3, varint(2**40) * 4)))),
        "a layout of another rank": module(computation(instruction(
            "p", "parameter", shape=SHAPE + field(5, field(1, varint(0) + varint(1)))))),
        "a shape of tuples 100,000 deep": module(computation(instruction("p", "parameter", shape=nested(4, 100000)))),
        "a called computation that does not exist": module(computation(PARAMETER, instruction(
            "c", "call", field(36, varint(1)) + field(38, varint(77)), 2), root=2)),
        "a computation that calls itself": module(computation(PARAMETER, instruction(
            "c", "call", field(36, varint(1)) + field(38, varint(1)), 2), root=2)),
        "a constant without its literal": module(computation(instruction("c", "constant"))),
        "a constant whose literal is too short": module(computation(instruction(
            "c", "constant", field(8, field(1, SHAPE) + field(8, b"\0" * 4))))),
        "a constant whose literal has another shape": module(computation(instruction(
            "c", "constant", field(8, field(1, field(2, 11) + field(3, varint(2**40))))))),
        "a parameter number of a billion": module(computation(instruction("p", "parameter", field(9, 1000000000)))),
        "a negate of two types": module(computation(PARAMETER, instruction("n", "negate", field(36, varint(1)), 2,
                                                                            shape=field(2, 4) + field(3, varint(4))), root=2)),
        "a dot without dimension numbers": module(computation(PARAMETER, instruction(
            "d", "dot", field(36, varint(1) + varint(1)), 2), root=2)),
        "a field whose length is beyond the end": module(computation(PARAMETER)) + varint(3 << 3 | 2) + varint(2**62),
        "a varint of eleven bytes": module(computation(PARAMETER)) + varint(5 << 3) + b"\xff" * 11,
        "a group that does not end": module(computation(PARAMETER)) + varint(3 << 3 | 3),
        "a field number zero": module(computation(PARAMETER)) + b"\x02\x01a",
        "a name that is no UTF-8 and holds a nul": field(1, b"\xff\0") + module(computation(instruction("\0", "parameter"))),
    }
    for name, data in cases.items():
        yield Case(f"proto: {name}", ["convert", "f.pb"], {"f.pb": data}, PARSE_OR_NAMED)
    for i in range(1, 31):
        yield Case(f"proto: cut at {i} of 31", ["convert", "f.pb"], {"f.pb": good[:len(good) * i // 31]}, PARSE)
    yield from bent("proto", good, "f.pb", 60)


def opcodes():
    """Every opcode and its number of operands (three where that varies), out of hlo/ops.def."""
    with open(os.path.join(HERE, "..", "..", "hlo", "ops.def"), encoding="ascii") as file:
        for text, arity in re.findall(r'^HLO_OP\(\w+, +"([\w-]+)", +(-?\d)', file.read(), re.M):
            yield text, int(arity)


def bare_ops():
    """Each op as protobuf without any attribute, with the operands it wants and with one too many."""
    parameters = [instruction(f"p{i}", "parameter", field(9, i), i + 1) for i in range(4)]
    for text, arity in opcodes():
        for count in {3 if arity < 0 else arity, 1 if arity < 0 else arity + 1}:
            operands = field(36, b"".join(varint(i + 1) for i in range(count)))
            data = module(computation(*parameters, instruction("r", text, operands, 9), root=9))
            yield Case(f"proto: bare {text} of {count}", ["run", "f.pb"], {"f.pb": data}, survive=True)


def bytecode_cases(good):
    head = b"ML\xefR\x0dStableHLO_v1.13.7\0"
    cases = {
        "only the magic": b"ML\xefR",
        "version 200": b"ML\xefR\xff\x03StableHLO_v1.13.7\0",
        "a producer without end": b"ML\xefR\x0dStableHLO_v1.13.7",
        "another producer's magic": b"ML\xefR\x0d" + b"A" * 100000,
        "no sections": head,
        "a section beyond the end": head + b"\x00" + b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f",
        "a section of no kind": head + b"\x7f\x05aa",
        "a string table of 2^60 strings": head + b"\x00\x13\x00" + struct.pack("<Q", 2**60) + b"\0" * 8,
    }
    for name, data in cases.items():
        yield Case(f"bytecode: {name}", ["convert", "f.mlirbc"], {"f.mlirbc": data}, PARSE_OR_NAMED)
    for i in range(1, 41):
        yield Case(f"bytecode: cut at {i} of 41", ["convert", "f.mlirbc"], {"f.mlirbc": good[:len(good) * i // 41]}, PARSE_OR_NAMED)
    yield from bent("bytecode", good, "f.mlirbc", 80)


def bent(kind, good, file, count):
    """One to four bytes set to something else: some of it reads as a program still."""
    for i in range(count):
        data = bytearray(good)
        for j in range(1 + i % 4):
            data[mix(10 + j, i) % len(data)] = [0, 0xFF, 0x7F, 1, mix(20 + j, i) % 256][mix(30 + j, i) % 5]
        verb = ["convert"] if i % 2 else ["run", "--on", "cpu:4"]
        yield Case(f"{kind}: bent {i}", [*verb, file], {file: bytes(data)}, survive=True)


def compressed_cases():
    text = RICH.encode()
    xz, gz = lzma.compress(text), gzip.compress(text, mtime=0)
    bomb = gzip.compress(b" " * 2**20, mtime=0)
    cases = {"xz magic alone": b"\xfd7zXZ\0", "gzip magic alone": b"\x1f\x8b", "zstd magic alone": b"\x28\xb5\x2f\xfd",
             "xz with a wrong checksum": xz[:-20] + bytes([xz[-20] ^ 1]) + xz[-19:],
             "gzip with a wrong checksum": gz[:-6] + bytes([gz[-6] ^ 1]) + gz[-5:],
             "gzip of nothing": gzip.compress(b"", mtime=0), "gzip of gzip of nothing": gzip.compress(gzip.compress(b"")),
             "gzip of blanks": bomb, "zstd of noise": b"\x28\xb5\x2f\xfd" + bytes(mix(5, i) % 256 for i in range(200)),
             "gzip with bytes after it": gz[:len(gz) // 2] + b"\0" * 50}
    for name, data in cases.items():
        yield Case(f"compressed: {name}", ["convert", "f"], {"f": data}, PARSE)
    for i in range(1, 7):
        yield Case(f"compressed: xz cut at {i} of 7", ["convert", "f"], {"f": xz[:len(xz) * i // 7]}, PARSE)
        yield Case(f"compressed: gzip cut at {i} of 7", ["convert", "f"], {"f": gz[:len(gz) * i // 7]}, PARSE)


def npy(header, data=b"", version=b"\x01\x00", length=None):
    head = header.encode() if isinstance(header, str) else header
    size = len(head) if length is None else length
    return b"\x93NUMPY" + version + size.to_bytes(2 if version[0] == 1 else 4, "little") + head + data


def header(descr="'<f4'", order="False", shape="(8, 16)"):
    return "{'descr': %s, 'fortran_order': %s, 'shape': %s, }\n" % (descr, order, shape)


FULL = b"\0" * 512


def seeds():
    """Good arrays and an archive, (name, bytes) each, for the fuzzers to begin with."""
    yield "plain.npy", npy(header(), FULL)
    yield "fortran.npy", npy(header(order="True"), FULL)
    for name, method in (("stored.npz", zipfile.ZIP_STORED), ("deflated.npz", zipfile.ZIP_DEFLATED)):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", method) as archive:
            for member in ("arr_0.npy", "arr_1.npy"):
                archive.writestr(zipfile.ZipInfo(member), npy(header(), FULL), method)
        yield name, out.getvalue()


def npy_cases():
    cases = {
        "nothing": b"", "magic alone": b"\x93NUMPY", "another magic": b"\x93NUMPZ\x01\x00" + b" " * 100,
        "version 9": npy(header(), FULL, b"\x09\x00"), "a header that is cut": npy(header(), length=60000),
        "a header of 4 GB": npy(header(), FULL, b"\x02\x00", 2**32 - 1),
        "a header that is not a dictionary": npy("[1, 2]\n", FULL), "an empty dictionary": npy("{}\n", FULL),
        "no shape": npy("{'descr': '<f4', 'fortran_order': False}\n", FULL),
        "a dictionary without end": npy("{'descr': '<f4', 'fortran_order': False, 'shape': (8, 16)\n", FULL),
        "a key twice": npy("{'descr': '<f4', 'descr': '<i4', 'fortran_order': False, 'shape': (8, 16)}\n", FULL),
        "an unknown key": npy("{'descr': '<f4', 'fortran_order': False, 'shape': (8, 16), 'colour': 1}\n", FULL),
        "an unknown type": npy(header("'<q9'"), FULL), "a type of objects": npy(header("'|O'"), FULL),
        "a record type": npy(header("[('a', '<f4')]"), FULL), "a type of 10,000 bytes": npy(header("'<f10000'"), FULL),
        "a broken order": npy(header(order="Maybe"), FULL), "a negative shape": npy(header(shape="(-8, 16)"), FULL),
        "a shape of letters": npy(header(shape="(a, b)"), FULL), "a shape without end": npy(header(shape="(8, 16"), FULL),
        "a shape that overflows": npy(header(shape="(4294967296, 4294967296, 4294967296)"), FULL),
        "a shape beyond 64 bits": npy(header(shape="(99999999999999999999, 1)"), FULL),
        "a shape of 10,000 dimensions": npy(header(shape="(" + "1, " * 10000 + ")"), FULL, b"\x02\x00"),
        "too few numbers": npy(header(), FULL[:-1]), "another rank": npy(header(shape="(128,)"), FULL),
        "another size": npy(header(shape="(16, 8)"), FULL), "another type": npy(header("'<i4'"), FULL),
        "nul bytes in the header": npy(b"\0" * 100, FULL), "the shape nested deeply": npy(header(shape="(" * 5000), FULL, b"\x02\x00"),
    }
    for name, data in cases.items():
        yield Case(f"npy: {name}", ["run", "dot.hlo", "--input", "p0=x.npy"], {"dot.hlo": DOT, "x.npy": data}, USAGE)
    for i in range(20):
        good = bytearray(npy(header(), FULL))
        good[mix(40, i) % 80] = mix(41, i) % 256
        yield Case(f"npy: bent {i}", ["run", "dot.hlo", "--input", "p0=x.npy"], {"dot.hlo": DOT, "x.npy": bytes(good)}, survive=True)


def archive(members, method=zipfile.ZIP_DEFLATED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as z:
        for name, data in members:
            z.writestr(zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0)), data)
    return out.getvalue()


def npz_cases():
    x = npy(header(), FULL)
    good = archive([("arr_0.npy", x)])
    central, end = good.index(b"PK\1\2"), good.index(b"PK\5\6")
    cases = {
        "not an archive": b"hello", "an empty archive": archive([]), "no arr_ in it": archive([("weights.npy", x)]),
        "a number beyond the parameters": archive([("arr_7.npy", x)]),
        "a member that is not an array": archive([("arr_0.npy", b"hello")]),
        "one name twice": b"".join([archive([("arr_0.npy", x)])[:central], good[central:end], good[central:end],
                                    struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 2, 2, 2 * (end - central), central, 0)]),
        "a directory beyond the end": good[:end + 16] + struct.pack("<L", 2**31) + good[end + 20:],
        "more members than there are": good[:end + 8] + struct.pack("<2H", 60000, 60000) + good[end + 12:],
        "a member beyond the end": good[:central + 42] + struct.pack("<L", 2**31) + good[central + 46:],
        "an immense member": good[:central + 20] + struct.pack("<2L", 2**32 - 2, 2**32 - 2) + good[central + 28:],
        "an unknown compression": good[:central + 10] + struct.pack("<H", 77) + good[central + 12:],
        "a wrong checksum": good[:central + 16] + struct.pack("<L", 1) + good[central + 20:],
        "an encrypted member": good[:central + 8] + struct.pack("<H", 1) + good[central + 10:],
    }
    for name, data in cases.items():
        yield Case(f"npz: {name}", ["run", "dot.hlo", "--input", "x.npz"], {"dot.hlo": DOT, "x.npz": data}, USAGE)
    for i in range(1, 6):
        yield Case(f"npz: cut at {i} of 6", ["run", "dot.hlo", "--input", "x.npz"],
                   {"dot.hlo": DOT, "x.npz": good[:len(good) * i // 6]}, USAGE)


def bytecode_seed():
    """The bytes of one artifact that JAX made, out of tests/stablehlo/golden.inc."""
    with open(os.path.join(HERE, "..", "stablehlo", "golden.inc"), encoding="ascii") as file:
        numbers = re.search(r"scan_bytes\[\] = \{(.*?)\};", file.read(), re.S).group(1)
    return bytes(int(n) for n in numbers.replace("\n", "").split(",") if n.strip())


def all_cases(meshlo):
    proto = subprocess.run([meshlo, "convert", "-", "--to", "proto", "-o", "-"], input=RICH.encode(), check=True,
                           stdout=subprocess.PIPE).stdout
    yield from proto_cases(proto)
    yield from bare_ops()
    yield from bytecode_cases(bytecode_seed())
    yield from compressed_cases()
    yield from npy_cases()
    yield from npz_cases()
