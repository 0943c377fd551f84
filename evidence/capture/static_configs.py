"""Static configs: from captured server.properties, and from the manifest for nodes whose file was not captured."""

from evidence import kinds
from evidence.capture.accounts import provenance
from evidence.capture.files import Capture
from evidence.redaction import config_value
from evidence.tables import Row
from evidence.text_files import read_properties


def static_configs(capture: Capture) -> list[Row]:
    """A row (node_id, name, value, provenance) for each config; secrets redacted. A node's own file takes precedence
    over the manifest. A properties file of an unknown node is left out, as no node can be assigned to it."""
    rows = [
        _row(file.node_id, name, value, provenance(capture.name, file, 0))
        for file in capture.files
        if file.kind == kinds.SERVER_PROPERTIES and file.node_id is not None
        for name, value in read_properties(file.read()).items()
    ]
    known = {(row["node_id"], row["name"]) for row in rows}
    if capture.manifest is not None and (file := capture.manifest_file) is not None:
        for node, configs in capture.manifest.static_configs(capture.nodes).items():
            place = provenance(capture.name, file, 0)
            rows += [_row(node, name, value, place) for name, value in configs.items() if (node, name) not in known]
    return rows


def _row(node: int, name: str, value: str, place: dict[str, object]) -> Row:
    return {"node_id": node, "name": name, "value": config_value(name, value), **place}
