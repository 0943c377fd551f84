"""Generate docs/glossary.md: `python -m docs_site.glossary_page > docs/glossary.md`."""

from __future__ import annotations

from jobs.report.words import GLOSSARY

HEAD = """# Glossary

Generated from `jobs/report/templates/glossary.txt` by `python -m docs_site.glossary_page`. [Concepts](concepts.md) has
drawings of the most important ones.

"""


def document() -> str:
    """docs/glossary.md."""
    return HEAD + GLOSSARY.replace("__cluster_metadata-0", "`__cluster_metadata-0`")


if __name__ == "__main__":
    print(document(), end="")
