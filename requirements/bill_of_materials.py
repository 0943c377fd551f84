"""Write conf/bill_of_materials.cdx.json and docs/licences.md (`make bill`).

The components are what CycloneDX's own tools found: Python packages in an environment, jars by their POMs. Here they
become one list: of the packages those of run.txt, without links, sorted, so that the same requirements always give the
same bytes.
"""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
BILL = ROOT / "conf" / "bill_of_materials.cdx.json"
PAGE = ROOT / "docs" / "licences.md"
KEPT = ("type", "bom-ref", "group", "name", "version", "hashes", "licenses", "purl")
INTRODUCTION = """# Licences

kraft-forensics is under the Apache License 2.0 ([LICENSE](../LICENSE)). These are the packages and jars that an
installation with the extra `s3` needs, each with the licences that it declares. `make bill` writes this page and the
bill of materials (conf/bill_of_materials.cdx.json) from what is installed on Linux.
"""


def canonical(name: str) -> str:
    """A package's name as indexes compare names."""
    return re.sub(r"[-_.]+", "-", name).lower()


def licences(component: dict[str, Any]) -> list[str]:
    """The licences that a component declares: SPDX's ids or expressions; where it has none, its own words."""
    given = [entry.get("license", {}) for entry in component.get("licenses", [])]
    identified = [one["id"] for one in given if "id" in one]
    identified += [entry["expression"] for entry in component.get("licenses", []) if "expression" in entry]
    named = [one["name"].rpartition(":: ")[2] for one in given if "name" in one]
    return sorted(set(identified or named))


def _shown(component: dict[str, Any]) -> dict[str, Any]:
    kept = {key: component[key] for key in KEPT if key in component}
    if "hashes" in kept:
        kept["hashes"] = [entry for entry in kept["hashes"] if entry["alg"] == "SHA-256"]
    if "licenses" in kept:
        for entry in kept["licenses"]:
            entry.get("license", {}).pop("url", None)
    return kept


def bill(python: dict[str, Any], *jars: dict[str, Any]) -> dict[str, Any]:
    """One bill of materials of an environment's packages and of the jars; the project is its main component."""
    wanted = set(re.findall(r"^([\w.-]+)==", (ROOT / "requirements" / "run.txt").read_text(encoding="utf-8"), re.M))
    wanted = {canonical(name) for name in wanted}
    main = _shown(python["metadata"]["component"])
    packages = [c for c in python["components"] if canonical(c["name"]) in wanted]
    components = [_shown(c) for c in [*packages, *(c for part in jars for c in part["components"])]]
    refs = {c["bom-ref"] for c in components}
    edges = {d["ref"]: set(d.get("dependsOn", ())) for part in (python, *jars) for d in part["dependencies"]}
    edges[main["bom-ref"]] |= {ref for part in jars for ref in edges[part["metadata"]["component"]["bom-ref"]]}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": python["specVersion"],
        "version": 1,
        "metadata": {"component": main},
        "components": sorted(components, key=lambda c: c["purl"]),
        "dependencies": [
            {"ref": ref, "dependsOn": sorted(edges.get(ref, set()) & refs)} for ref in sorted(refs | {main["bom-ref"]})
        ],
    }


def page(made: dict[str, Any]) -> str:
    """docs/licences.md for a bill of materials: a line for each licence, jars of a group and version together."""
    text = INTRODUCTION
    for title, kind in (("Python packages", "pkg:pypi/"), ("Jars", "pkg:maven/")):
        named = defaultdict[str, dict[str, list[str]]](lambda: defaultdict(list))
        for c in made["components"]:
            if c["purl"].startswith(kind):
                several = f"{c['group']} {c['version']}: " if "group" in c else ""
                name = c["name"] if several else f"{c['name']} {c['version']}"
                named[", ".join(licences(c)) or "not declared"][several].append(name)
        lines = (
            f"- **{licence}**: {'; '.join(of + ', '.join(names) for of, names in groups.items())}\n"
            for licence, groups in sorted(named.items())
        )
        text += f"\n## {title}\n\n{''.join(lines)}"
    return text


def main() -> None:
    made = bill(*(json.loads(Path(name).read_text(encoding="utf-8")) for name in sys.argv[1:]))
    BILL.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    PAGE.write_text(page(made), encoding="utf-8")


if __name__ == "__main__":
    main()
