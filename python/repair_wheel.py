#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: python/repair_wheel.py WHEEL FOLDER     Makes a wheel for the Linux of others (manylinux) of one that was built here.

`auditwheel repair` copies the libraries that the wheel is linked with into it. OpenBLAS, which is opened late, is copied beside them
with what it needs: the plugin and the library find it there by their run path. The licences of all of them come along. The commands
auditwheel and patchelf must be there. Prints the path of the new wheel."""
import base64
import hashlib
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

# What targets/cpu/blas/library.c opens, the build with threads first.
BLAS = ("libopenblas.so.0", "libopenblasp.so.0")
BLAS_FOLDERS = ("/usr/lib/x86_64-linux-gnu/openblas-pthread", "/usr/lib/aarch64-linux-gnu/openblas-pthread", "/usr/lib64", "/usr/lib")
# Every manylinux has these.
SYSTEM = re.compile(r"(libc|libm|libdl|librt|libpthread|libgcc_s|libstdc\+\+|ld-linux-[\w-]+)\.so")


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def needed(library):
    """The libraries that one is linked with, by name, with their paths here."""
    lines = re.findall(r"^\s*(\S+) => (/\S+)", output("ldd", str(library)), re.M)
    return {name: pathlib.Path(path) for name, path in lines if not SYSTEM.match(name)}


def blas_here():
    """OpenBLAS and what it needs, by the names under which they are opened; nothing where it is not installed."""
    for folder in BLAS_FOLDERS:
        for name in BLAS:
            path = pathlib.Path(folder, name)
            if path.exists():
                return {name: path, **needed(path)}
    return {}


def package_of(path):
    """The package that a library belongs to, and the folder with its licence."""
    for candidate in (path, path.resolve(), pathlib.Path(str(path).removeprefix("/usr")), pathlib.Path("/usr" + str(path.resolve()))):
        for query, folder in ((("dpkg", "-S"), "/usr/share/doc"), (("rpm", "-qf", "--queryformat", "%{NAME}:"), "/usr/share/licenses")):
            if shutil.which(query[0]):
                found = subprocess.run((*query, str(candidate)), capture_output=True, text=True)
                if found.returncode == 0:
                    package = found.stdout.split(":")[0]
                    return package, pathlib.Path(folder, package)
    return None


def add_licences(libraries, info):
    """Copies the licence of each library's package into the wheel, and names it in the metadata."""
    metadata = info / "METADATA"
    head, blank, body = metadata.read_text().partition("\n\n")
    for path in libraries:
        owner = package_of(path)
        if owner is None:
            sys.exit(f"no package is known to own {path}, so that its licence is unknown")
        package, folder = owner
        texts = [one for one in sorted(folder.rglob("*")) if one.is_file() and re.match(r"(?i)copyright|copying|licen[cs]e", one.name)]
        if not texts:
            sys.exit(f"no licence of {package} in {folder}")
        name = f"third-party/{package}.txt"
        target = info / "licenses" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("\n\n".join(one.read_text(errors="replace") for one in texts))
        if f"License-File: {name}" not in head:
            head += f"\nLicense-File: {name}"
    metadata.write_text(head + blank + body)


def pack(tree, wheel):
    """Zips a tree as a wheel, with the hashes of its files."""
    record = next(tree.glob("*.dist-info")) / "RECORD"
    record.unlink()
    files = sorted(one for one in tree.rglob("*") if one.is_file())
    rows = []
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for one in files:
            data, name = one.read_bytes(), one.relative_to(tree).as_posix()
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            rows.append(f"{name},sha256={digest},{len(data)}")
            archive.write(one, name)
        archive.writestr(record.relative_to(tree).as_posix(), "\n".join([*rows, f"{record.relative_to(tree).as_posix()},,"]) + "\n")


def main(wheel, folder):
    with tempfile.TemporaryDirectory() as work:
        tree = pathlib.Path(work, "tree")
        subprocess.run(("auditwheel", "repair", "-w", work, wheel), check=True, stdout=sys.stderr)
        repaired = next(pathlib.Path(work).glob("*.whl"))
        # Modes, which zipfile loses, count for the command.
        with zipfile.ZipFile(repaired) as archive:
            for entry in archive.infolist():
                pathlib.Path(archive.extract(entry, tree)).chmod((entry.external_attr >> 16) & 0o777 or 0o644)
        libraries = next(tree.glob("*.libs"))
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(pathlib.Path(work, "before"))
        bundled = set()
        for one in pathlib.Path(work, "before").rglob("*.so*"):
            bundled |= set(needed(one).values())
        for name, path in blas_here().items():
            shutil.copyfile(path, libraries / name)
            output("patchelf", "--set-rpath", "$ORIGIN", str(libraries / name))
            bundled.add(path)
        if not any((libraries / name).exists() for name in BLAS):
            print("OpenBLAS is not installed here, and so not in the wheel", file=sys.stderr)
        add_licences(sorted(bundled), next(tree.glob("*.dist-info")))
        pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
        result = pathlib.Path(folder, repaired.name)
        pack(tree, result)
    print(result)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__.split("\n\n")[0])
    main(sys.argv[1], sys.argv[2])
