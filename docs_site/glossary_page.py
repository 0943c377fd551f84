"""Generate docs/glossary.md: `python -m docs_site.glossary_page > docs/glossary.md`."""

from __future__ import annotations

from jobs.report.glossary import TERMS

HEAD = """# Glossary

Generated from `jobs/report/glossary.py:TERMS` by `python -m docs_site.glossary_page`. [Concepts](concepts.md) has
drawings of the most important ones.
"""


def document() -> str:
    """docs/glossary.md."""
    lines = [f"- **{t.name}**: {t.meaning}" + (f" [More]({t.see})" if t.see else "") for t in TERMS]
    return HEAD + "\n" + "\n".join(lines).replace("__cluster_metadata-0", "`__cluster_metadata-0`") + "\n"


if __name__ == "__main__":
    print(document(), end="")
