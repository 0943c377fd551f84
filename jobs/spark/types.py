"""Convert Arrow types to Spark types."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructField, StructType


def spark_schema(schema: pa.Schema) -> StructType:
    """Convert an Arrow schema, with the comments of its fields, to a Spark schema."""
    plain = from_arrow_schema(schema)
    comments = [(field.metadata or {}).get(b"comment", b"").decode() for field in schema]
    return StructType(
        [StructField(f.name, f.dataType, True, {"comment": c}) for f, c in zip(plain.fields, comments, strict=True)]
    )
