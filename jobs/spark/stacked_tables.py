"""Make several tables in one pass over buckets. A row of the pass belongs to one table and fills its struct column."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructField, StructType

from jobs.spark.buckets import map_buckets


class StackedTables:
    """The tables that a pass makes: name -> Arrow schema."""

    def __init__(self, **schemas: pa.Schema) -> None:
        self.schema = pa.schema([pa.field(name, pa.struct(list(s))) for name, s in schemas.items()])
        kinds = from_arrow_schema(self.schema)
        self.spark_schema = StructType([StructField(f.name, f.dataType) for f in kinds.fields])

    def stacked(self, tables: Mapping[str, pa.Table]) -> pa.Table:
        """Concatenate the tables, each in its own column."""
        total, begin = sum(len(table) for table in tables.values()), 0
        columns: dict[str, pa.Array] = {}
        for field in self.schema:
            table = tables[field.name]
            rows = pa.StructArray.from_arrays([c.combine_chunks() for c in table.columns], fields=list(field.type))
            after = pa.nulls(total - begin - len(table), field.type)
            columns[field.name] = pa.concat_arrays([pa.nulls(begin, field.type), rows, after])
            begin += len(table)
        return pa.table(columns, schema=self.schema)

    def empty(self) -> pa.Table:
        return self.schema.empty_table()

    def of_buckets(
        self, frame: DataFrame, schema: pa.Schema, buckets: int, make: Callable[[pa.Table], Mapping[str, pa.Table]]
    ) -> DataFrame:
        """Run one pass over a frame (jobs.spark.buckets.map_buckets) and stack the tables of each bucket."""

        def stack(bucket: pa.Table) -> pa.Table:
            return self.stacked(make(bucket))

        return map_buckets(frame, schema, buckets, stack, self.spark_schema)


def rows_of(found: DataFrame, name: str) -> DataFrame:
    """The rows of one table of a pass."""
    return found.where(F.col(name).isNotNull()).select(f"{name}.*")


def arrow_rows_of(found: pa.Table, name: str) -> pa.Table:
    """Like `rows_of`, for a pass that the driver has fetched."""
    rows = [chunk.drop_null() for chunk in found[name].chunks]
    schema = pa.schema(list(found.schema.field(name).type))
    return pa.Table.from_batches([pa.RecordBatch.from_struct_array(chunk) for chunk in rows], schema)
