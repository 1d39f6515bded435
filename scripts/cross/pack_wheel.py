"""Packs the folder of an installed package into a wheel.

    pack_wheel.py FOLDER TAG HOUSE

FOLDER contains the files of one package, among them NAME-VERSION.dist-info/METADATA. The
wheel is HOUSE/NAME-VERSION-TAG.whl; it replaces other versions for the same TAG. Prints
its path. Source: PyPA's specification "Binary distribution format".
"""

from __future__ import annotations

import base64
import hashlib
import sys
import zipfile
from pathlib import Path


def record_of(name: str, content: bytes) -> str:
    """Return a line of RECORD: name, hash and size of a file."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
    return f"{name},sha256={digest.decode()},{len(content)}"


def pack(folder: Path, tag: str, house: Path) -> Path:
    """Write the wheel and return its path."""
    found = sorted(folder.glob("*.dist-info/METADATA"))
    if len(found) != 1:
        sys.exit(f"{folder} contains the metadata of {len(found)} packages, not of one")
    info = found[0].parent.name
    written = {f"{info}/WHEEL", f"{info}/RECORD"}
    files = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
    contents = {name: files[name] for name in files if name not in written}
    contents[f"{info}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: llamaherd\nRoot-Is-Purelib: false\nTag: {tag}\n"
    ).encode()
    lines = [record_of(name, content) for name, content in contents.items()]
    lines.append(f"{info}/RECORD,,")
    contents[f"{info}/RECORD"] = "".join(f"{line}\n" for line in lines).encode()

    package = info.removesuffix(".dist-info")
    house.mkdir(parents=True, exist_ok=True)
    for older in house.glob(f"{package.partition('-')[0]}-*-{tag}.whl"):
        older.unlink()
    wheel = house / f"{package}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    return wheel


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    print(pack(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])))
