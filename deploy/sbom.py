"""Prints a CycloneDX 1.5 bill of materials of the packages installed under a directory: `python sbom.py DIR`.

Reads only the packages' own metadata (*.dist-info/METADATA), so that it says what is in the image, not what was asked for.
Format: https://cyclonedx.org/docs/1.5/json/
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import distributions


def document(path: str) -> dict[str, object]:
    """The bill of materials of `path` as a JSON object, components sorted by name."""
    components = []
    for package in distributions(path=[path]):
        name, version = package.metadata["Name"], package.version
        license_ = package.metadata.get("License-Expression") or package.metadata.get("License") or ""
        entry: dict[str, object] = {"type": "library", "name": name, "version": version, "purl": f"pkg:pypi/{name.lower()}@{version}"}
        if license_ and "\n" not in license_:
            entry["licenses"] = [{"license": {"name": license_}}]
        components.append(entry)
    components.sort(key=lambda c: str(c["name"]).lower())
    return {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "components": components}


if __name__ == "__main__":
    json.dump(document(sys.argv[1]), sys.stdout, indent=1)
