import java.io.File;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Random;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.BufferSupplier;

/**
 * Two copies of a partition, as Kafka's own classes write them: `DataLogs FOLDER SEED`. FOLDER/old is of the leader that
 * died, in all message formats and codecs; FOLDER/current was compacted, and goes on otherwise from an offset. Prints a
 * JSON object for each record of `old` that Kafka's reader finds, and last {"parting": offset}.
 */
public class DataLogs {
    static Random random;
    static long next = 0;

    public static void main(String[] args) throws Exception {
        Path folder = Path.of(args[0]);
        random = new Random(Long.parseLong(args[1]));
        List<MemoryRecords> shared = new ArrayList<>(), lost = new ArrayList<>(), won = new ArrayList<>();
        for (CompressionType codec : CompressionType.values())
            for (byte magic = 0; magic < 2; magic++)
                if (codec != CompressionType.ZSTD && !(codec == CompressionType.LZ4 && magic == 0))
                    shared.add(batch(magic, codec, 1, -1));
        for (int i = 0; i < 12; i++) shared.add(any(1));
        long parting = next;
        for (int i = 0; i < 20; i++) lost.add(any(2));
        lost.add(MemoryRecords.withEndTransactionMarker(next++, 1000, 2, 8, (short) 1, new EndTransactionMarker(ControlRecordType.ABORT, 0)));
        next = parting;
        for (int i = 0; i < 5; i++) won.add(any(3));
        write(folder.resolve("old/ledger-0"), shared, lost);
        List<MemoryRecords> cleaned = new ArrayList<>();
        for (MemoryRecords records : shared) cleaned.add(compact(records));
        write(folder.resolve("current/ledger-0"), cleaned, won);
        PrintStream out = new PrintStream(new FileOutputStream(java.io.FileDescriptor.out), false, "UTF-8");
        File segment = folder.resolve("old/ledger-0/00000000000000000000.log").toFile();
        try (FileRecords read = FileRecords.open(segment)) {
            for (RecordBatch batch : read.batches())
                for (Record record : batch)
                    if (!batch.isControlBatch()) out.println(json(batch, record));
        }
        out.println("{\"parting\":" + parting + "}");
        out.flush();
    }

    static MemoryRecords any(int epoch) {
        CompressionType[] codecs = CompressionType.values();
        return batch((byte) 2, codecs[random.nextInt(codecs.length)], epoch, random.nextInt(4) == 0 ? 8 : -1);
    }

    static MemoryRecords batch(byte magic, CompressionType codec, int epoch, long producer) {
        boolean appendTime = magic > 0 && random.nextInt(4) == 0;
        TimestampType type = magic == 0 ? TimestampType.NO_TIMESTAMP_TYPE
            : appendTime ? TimestampType.LOG_APPEND_TIME : TimestampType.CREATE_TIME;
        MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(1 << 16), magic, Compression.of(codec).build(), type,
            next, 1_795_000_000_000L + random.nextInt(1000), producer, (short) (producer < 0 ? -1 : 1),
            producer < 0 ? -1 : Integer.MAX_VALUE - random.nextInt(3), producer >= 0, false, magic < 2 ? RecordBatch.NO_PARTITION_LEADER_EPOCH : epoch);
        int count = 1 + random.nextInt(6);
        for (int i = 0; i < count; i++, next++) {
            Header[] headers = new Header[magic < 2 ? 0 : random.nextInt(3)];
            for (int h = 0; h < headers.length; h++) headers[h] = new RecordHeader("h\u00e9" + h, bytes());
            long time = magic == 0 ? RecordBatch.NO_TIMESTAMP : 1_700_000_000_000L + random.nextInt(100_000);
            builder.appendWithOffset(next, time, bytes(), bytes(), headers);
        }
        return builder.build();
    }

    static byte[] bytes() {
        if (random.nextInt(5) == 0) return null;
        byte[] made = new byte[random.nextInt(4) == 0 ? 300 : random.nextInt(12)];
        random.nextBytes(made);
        return made;
    }

    static MemoryRecords compact(MemoryRecords records) {
        ByteBuffer to = ByteBuffer.allocate(1 << 16);
        var result = records.filterTo(new MemoryRecords.RecordFilter(1000, 1000) {
            protected BatchRetentionResult checkBatchRetention(RecordBatch batch) {
                return new BatchRetentionResult(MemoryRecords.RecordFilter.BatchRetention.DELETE_EMPTY, false);
            }
            protected boolean shouldRetainRecord(RecordBatch batch, Record record) {
                return random.nextInt(3) > 0;
            }
        }, to, BufferSupplier.NO_CACHING);
        ByteBuffer made = result.outputBuffer();
        made.flip();
        return MemoryRecords.readableRecords(made);
    }

    static void write(Path folder, List<MemoryRecords> first, List<MemoryRecords> then) throws Exception {
        Files.createDirectories(folder);
        try (FileOutputStream out = new FileOutputStream(folder.resolve("00000000000000000000.log").toFile())) {
            for (MemoryRecords records : first) records.writeFullyTo(out.getChannel());
            for (MemoryRecords records : then) records.writeFullyTo(out.getChannel());
        }
    }

    static String json(RecordBatch batch, Record record) {
        StringBuilder headers = new StringBuilder();
        for (Header header : record.headers())
            headers.append(headers.length() == 0 ? "" : ",").append("[\"").append(header.key()).append("\",")
                .append(hex(header.value() == null ? null : ByteBuffer.wrap(header.value()))).append("]");
        return "{\"offset\":" + record.offset() + ",\"timestamp\":" + record.timestamp() + ",\"sequence\":" + record.sequence()
            + ",\"epoch\":" + batch.partitionLeaderEpoch() + ",\"producer\":" + batch.producerId() + ",\"key\":" + hex(record.key())
            + ",\"value\":" + hex(record.value()) + ",\"headers\":[" + headers + "]}";
    }

    static String hex(ByteBuffer buffer) {
        if (buffer == null) return "null";
        byte[] made = new byte[buffer.remaining()];
        buffer.duplicate().get(made);
        return "\"" + HexFormat.of().formatHex(made) + "\"";
    }
}
