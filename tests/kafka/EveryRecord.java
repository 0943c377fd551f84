import java.io.FileOutputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.Array;
import java.lang.reflect.Method;
import java.lang.reflect.ParameterizedType;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Random;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.metadata.MetadataJsonConverters;
import org.apache.kafka.common.metadata.MetadataRecordType;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.Field;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.protocol.types.Type;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/**
 * What one release's generated classes say of metadata records. It compiles against every release since 3.9: classes
 * that moved between packages are found by name.
 *
 * `java EveryRecord schemas` prints every record type, version, field, wire type and tag, as
 * evidence/wire/schemas/metadata_records.json has them. `java EveryRecord log FILE SEED ROUNDS` writes a segment with every
 * type in every version, fields random, and FILE.jsonl with Kafka's JSON form of each record.
 */
public class EveryRecord {
    private static final ObjectMapper MAPPER = new ObjectMapper();
    private static final long FIRST_TIMESTAMP_MS = 1_790_000_000_000L;

    private final Random random;
    private final OutputStream log;
    private final List<byte[]> batch = new ArrayList<>();
    private long offset = 0;

    private EveryRecord(Random random, OutputStream log) {
        this.random = random;
        this.log = log;
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("schemas")) {
            System.out.println(schemas());
            return;
        }
        try (OutputStream log = new FileOutputStream(arguments[1]);
             PrintStream json = new PrintStream(arguments[1] + ".jsonl", StandardCharsets.UTF_8)) {
            EveryRecord made = new EveryRecord(new Random(Long.parseLong(arguments[2])), log);
            for (int round = Integer.parseInt(arguments[3]); round > 0; round--) made.round(json);
            made.endBatch();
        }
    }

    private static ArrayNode schemas() throws Exception {
        ArrayNode types = MAPPER.createArrayNode();
        for (MetadataRecordType type : MetadataRecordType.values()) {
            ApiMessage record = type.newMetadataRecord();
            Schema[] schemas = (Schema[]) record.getClass().getField("SCHEMAS").get(null);
            ObjectNode entry = types.addObject().put("name", record.getClass().getSimpleName()).put("api_key", type.id());
            entry.put("min_version", type.lowestSupportedVersion()).put("max_version", type.highestSupportedVersion());
            ObjectNode versions = entry.putObject("versions");
            for (int v = type.lowestSupportedVersion(); v <= type.highestSupportedVersion(); v++)
                versions.set(String.valueOf(v), fields(schemas[v]));
        }
        return types;
    }

    private static ArrayNode fields(Schema schema) throws Exception {
        ArrayNode fields = MAPPER.createArrayNode();
        for (BoundField field : schema.fields()) describe(fields.addObject().put("name", field.def.name), field.def.type);
        return fields;
    }

    private static void describe(ObjectNode field, Type type) throws Exception {
        if (type instanceof TaggedFields) {
            ObjectNode tags = field.put("type", "tagged_fields").putObject("tags");
            for (Map.Entry<?, ?> entry : tagged((TaggedFields) type).entrySet()) {
                Field tagged = (Field) entry.getValue();
                describe(tags.putObject(entry.getKey().toString()).put("name", tagged.name), tagged.type);
            }
            return;
        }
        field.put("type", type.toString());
        Type element = type.arrayElementType().orElse(null);
        if (element instanceof Schema) field.set("fields", fields((Schema) element));
        if (type.isNullable()) field.put("nullable", true);
    }

    /** Up to 3.9 no method gives the fields by tag. */
    private static Map<?, ?> tagged(TaggedFields type) throws Exception {
        java.lang.reflect.Field fields = TaggedFields.class.getDeclaredField("fields");
        fields.setAccessible(true);
        return (Map<?, ?>) fields.get(type);
    }

    private void round(PrintStream json) throws Exception {
        for (MetadataRecordType type : MetadataRecordType.values()) {
            for (short v = type.lowestSupportedVersion(); v <= type.highestSupportedVersion(); v++) {
                ByteBuffer value = randomRecord(type, v);
                ApiMessage record = MetadataRecordSerde.INSTANCE
                    .read(new ByteBufferAccessor(value.duplicate()), value.remaining()).message();
                long at = offset + batch.size();
                ObjectNode line = MAPPER.createObjectNode().put("offset", at).put("timestamp", FIRST_TIMESTAMP_MS + at);
                line.put("type", type.name()).put("version", v);
                line.set("data", MetadataJsonConverters.writeJson(record, v));
                json.println(line);
                byte[] bytes = new byte[value.remaining()];
                value.get(bytes);
                batch.add(bytes);
                if (random.nextInt(15) == 0) endBatch();
            }
        }
    }

    /** A record whose fields are set at random: ever fewer of them until this version can hold what is set. */
    private ByteBuffer randomRecord(MetadataRecordType type, short version) throws Exception {
        for (int unset = 10; ; unset = Math.min(unset + 1, 100)) {
            ApiMessage record = type.newMetadataRecord();
            fill(record, unset);
            try {
                ApiMessageAndVersion message = new ApiMessageAndVersion(record, version);
                ObjectSerializationCache cache = new ObjectSerializationCache();
                ByteBuffer value = ByteBuffer.allocate(MetadataRecordSerde.INSTANCE.recordSize(message, cache));
                MetadataRecordSerde.INSTANCE.write(message, cache, new ByteBufferAccessor(value));
                return value.flip();
            } catch (UnsupportedVersionException | NullPointerException e) {
                // A field that this version lacks was set, or one that it needs was not.
            }
        }
    }

    /** Set each field by its setter, but for about `unset` of 100. */
    private void fill(Object message, int unset) throws Exception {
        Method[] setters = Arrays.stream(message.getClass().getDeclaredMethods())
            .filter(m -> m.getName().startsWith("set") && m.getParameterCount() == 1)
            .sorted((a, b) -> a.getName().compareTo(b.getName())).toArray(Method[]::new);
        for (Method setter : setters) {
            if (random.nextInt(100) < unset) continue;
            Class<?> type = setter.getParameterTypes()[0];
            Object value = List.class.isAssignableFrom(type) ? list(setter, unset)
                : Collection.class.isAssignableFrom(type) ? collection(type, unset)
                : scalar(type, setter.getName().equals("setPort"));
            setter.invoke(message, value);
        }
    }

    private List<Object> list(Method setter, int unset) throws Exception {
        ParameterizedType type = (ParameterizedType) setter.getGenericParameterTypes()[0];
        Class<?> element = (Class<?>) type.getActualTypeArguments()[0];
        List<Object> values = new ArrayList<>();
        for (int left = random.nextInt(5); left > 0; left--) values.add(element(element, unset));
        return values;
    }

    /** A generated collection (ImplicitLinkedHashCollection), whose class is named after its elements'. */
    private Object collection(Class<?> type, int unset) throws Exception {
        Class<?> element = Class.forName(type.getName().replaceAll("Collection$", ""));
        @SuppressWarnings("unchecked")
        Collection<Object> values = (Collection<Object>) type.getDeclaredConstructor().newInstance();
        for (int left = 1 + random.nextInt(3); left > 0; left--) values.add(element(element, unset));
        return values;
    }

    private Object element(Class<?> type, int unset) throws Exception {
        if (type.getName().startsWith("java.") || type == Uuid.class) return scalar(type, false);
        Object message = type.getDeclaredConstructor().newInstance();
        fill(message, unset);
        return message;
    }

    private Object scalar(Class<?> type, boolean unsigned16) {
        if (type == boolean.class) return random.nextBoolean();
        if (type == byte.class) return (byte) (random.nextInt(4) - 1);
        if (type == short.class) return (short) (random.nextInt(5) == 0 ? random.nextInt() : random.nextInt(30));
        if (unsigned16) return random.nextInt(1 << 16);
        if (type == int.class || type == Integer.class) return random.nextInt(5) == 0 ? random.nextInt() : random.nextInt(200);
        if (type == long.class) return random.nextBoolean() ? random.nextLong() : random.nextInt(10_000);
        if (type == double.class) return random.nextDouble() * 1e6;
        if (type == Uuid.class) return new Uuid(random.nextLong(), random.nextLong());
        if (type == byte[].class) {
            byte[] bytes = new byte[random.nextInt(40)];
            random.nextBytes(bytes);
            return bytes;
        }
        if (type == String.class) return random.nextInt(4) == 0 ? "" : "näme-" + "x".repeat(random.nextInt(200));
        throw new IllegalArgumentException("no random value for a " + type);
    }

    private void endBatch() throws Exception {
        if (batch.isEmpty()) return;
        Class<?> simple = ofRecords("SimpleRecord");
        Object records = Array.newInstance(simple, batch.size());
        for (int i = 0; i < batch.size(); i++) {
            Object record = simple.getConstructor(long.class, byte[].class, byte[].class)
                .newInstance(FIRST_TIMESTAMP_MS + offset + i, null, batch.get(i));
            Array.set(records, i, record);
        }
        Method withRecords = ofRecords("MemoryRecords").getMethod("withRecords", byte.class, long.class, Compression.class,
            TimestampType.class, long.class, short.class, int.class, int.class, boolean.class, records.getClass());
        Object made = withRecords.invoke(null, (byte) 2, offset, Compression.NONE, TimestampType.CREATE_TIME, -1L, (short) -1,
            -1, 1, false, records);
        ByteBuffer buffer = ((ByteBuffer) made.getClass().getMethod("buffer").invoke(made)).duplicate();
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        log.write(bytes);
        offset += batch.size();
        batch.clear();
    }

    /** A class of Kafka's records: since 4.2 they are in a package of their own. */
    private static Class<?> ofRecords(String name) throws ClassNotFoundException {
        try {
            return Class.forName("org.apache.kafka.common.record.internal." + name);
        } catch (ClassNotFoundException e) {
            return Class.forName("org.apache.kafka.common.record." + name);
        }
    }
}
