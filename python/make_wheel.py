"""Writes ringzero's wheel from its sources and libraries: make_wheel.py WHEEL LIBRARY_DIR PACKAGE.

Needs Python alone. The same inputs give the same bytes.
"""

import base64
import hashlib
import os
import re
import sys
import zipfile
from typing import Dict, List, Tuple

LIBRARIES = ("libringzero.so", "libringzero_core.so")
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest that a zip file can say

METADATA = """\
Metadata-Version: 2.1
Name: ringzero
Version: {version}
Summary: Collective communication and ZeRO sharding
License: Apache-2.0
Requires-Python: >=3.9
Provides-Extra: numpy
Requires-Dist: numpy; extra == "numpy"
Provides-Extra: torch
Requires-Dist: torch>=1.13; extra == "torch"
"""

WHEEL = """\
Wheel-Version: 1.0
Generator: ringzero
Root-Is-Purelib: false
Tag: {tag}
"""


def _sources(package: str) -> List[Tuple[str, str]]:
    """(name in the wheel, path) of the package's files."""
    found = []
    for folder, folders, names in os.walk(package, followlinks=True):
        folders.sort()
        for name in sorted(names):
            if name.endswith((".py", ".typed")):
                path = os.path.join(folder, name)
                found.append((os.path.join("ringzero", os.path.relpath(path, package)), path))
    return found


def _record(contents: Dict[str, bytes], path: str) -> bytes:
    lines = []
    for name, data in contents.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(data)}")
    return "\n".join(lines + [f"{path},,", ""]).encode()


def main(wheel: str, library_dir: str, package: str) -> None:
    """Writes the wheel; its name says version and platform, as NAME-VERSION-py3-none-PLATFORM.whl."""
    name, version, tag = os.path.basename(wheel)[:-len(".whl")].split("-", 2)
    with open(os.path.join(package, "__init__.py"), encoding="utf-8") as source:
        found = re.search(r'__version__ = "(.*)"', source.read())
    if found is None or found.group(1) != version:
        sys.exit(f"{wheel} is named for version {version}, and the package is "
                 f"{found and found.group(1)}")
    contents: Dict[str, bytes] = {}
    paths = _sources(package) + [(f"ringzero/{library}", os.path.join(library_dir, library))
                                 for library in LIBRARIES]
    for inside, path in paths:
        with open(path, "rb") as file:
            contents[inside] = file.read()
    info = f"{name}-{version}.dist-info"
    contents[f"{info}/METADATA"] = METADATA.format(version=version).encode()
    contents[f"{info}/WHEEL"] = WHEEL.format(tag=tag).encode()
    contents[f"{info}/RECORD"] = _record(contents, f"{info}/RECORD")
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for inside, data in contents.items():
            entry = zipfile.ZipInfo(inside, _EPOCH)
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
