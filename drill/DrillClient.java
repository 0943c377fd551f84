import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeTopicsOptions;
import org.apache.kafka.clients.admin.ElectLeadersOptions;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.ElectionNotNeededException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * The client of a drill: reads commands from stdin, a line each, and prints JSON objects, a line each. A command ends
 * with {"done":...} or {"error":...}; before that, and at any time while records are in flight, come lines
 * {"ack":...} (a record that was acknowledged), {"failed":...} (one whose fate the client does not know), and
 * {"marker":...} (a transaction of the partition has ended, which writes a record, too).
 */
public class DrillClient {
    static final PrintStream OUT = System.out;
    static String servers;
    static final Properties settings = new Properties();
    static Admin admin;
    static final Map<String, KafkaProducer<String, String>> producers = new HashMap<>();
    static long next = 0;
    static Thread load;

    public static void main(String[] args) throws Exception {
        servers = args[0];
        settings.put("bootstrap.servers", servers);
        settings.put("request.timeout.ms", "8000");
        settings.put("default.api.timeout.ms", "20000");
        settings.put("reconnect.backoff.max.ms", "500");
        // A broker that registered after the client's first look is asked, too, when all others are down.
        settings.put("metadata.max.age.ms", "2000");
        admin = Admin.create(settings);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            try {
                print("{\"done\":" + run(line.trim().split(" ")) + "}");
            } catch (Exception e) {
                Throwable cause = e instanceof ExecutionException ? e.getCause() : e;
                print("{\"error\":" + text(String.valueOf(cause)) + "}");
            }
        }
        stopLoad();
        System.exit(0);
    }

    static String run(String[] w) throws Exception {
        switch (w[0]) {
            case "create": return create(w[1], w[2], Arrays.asList(w).subList(3, w.length));
            case "delete": admin.deleteTopics(List.of(w[1])).all().get(); return "null";
            case "produce":
                produce(w[1], Integer.parseInt(w[2]), Integer.parseInt(w[3]), w[4], w[5], Integer.parseInt(w[6]));
                return "null";
            case "transact":
                transact(w[1], Integer.parseInt(w[2]), Integer.parseInt(w[3]), w[4].equals("commit"));
                return "null";
            case "load": startLoad(Arrays.asList(w).subList(3, w.length), w[1], Integer.parseInt(w[2])); return "null";
            case "send": sendBy(w[1], Integer.parseInt(w[2]), Integer.parseInt(w[3]), Integer.parseInt(w[4])); return "null";
            case "unload": stopLoad(); return "null";
            case "monitor": startMonitor(Path.of(w[1]), Integer.parseInt(w[2])); return "null";
            case "describe": return describe();
            case "read": return read(w[1], Integer.parseInt(w[2]));
            case "config": config(w[1], w[2].equals("-") ? "" : w[2], w[3]); return "null";
            case "elect": elect(w[1], Arrays.asList(w).subList(2, w.length)); return "null";
            case "reassign": reassign(w[1], Integer.parseInt(w[2]), w[3]); return "null";
            case "move": move(new TopicPartitionReplica(w[1], Integer.parseInt(w[2]), Integer.parseInt(w[3]))); return "null";
            case "feature": feature(w[1], Short.parseShort(w[2])); return "null";
            case "brokers":
                return ids(admin.describeCluster().nodes().get());
            case "quorum":
                return String.valueOf(admin.describeMetadataQuorum().quorumInfo().get().leaderId());
            default: throw new IllegalArgumentException(w[0]);
        }
    }

    /** assignment: 1,2,3/2,3,4 are the replicas of two partitions. */
    static String create(String topic, String assignment, List<String> configs) throws Exception {
        Map<Integer, List<Integer>> replicas = new TreeMap<>();
        for (String of : assignment.split("/")) replicas.put(replicas.size(), numbers(of));
        Map<String, String> values = new HashMap<>();
        for (String c : configs) values.put(c.split("=")[0], c.split("=")[1]);
        var made = admin.createTopics(List.of(new NewTopic(topic, replicas).configs(values)));
        try {
            return text(made.topicId(topic).get().toString());
        } catch (ExecutionException e) {
            // The client sends a request again whose answer was lost. Then its first one has created the topic.
            if (!(e.getCause() instanceof TopicExistsException)) throw e;
            return text(admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).topicId().toString());
        }
    }

    static synchronized KafkaProducer<String, String> producer(String acks) {
        return producers.computeIfAbsent(acks, key -> {
            Properties p = new Properties();
            p.put("bootstrap.servers", servers);
            p.put("key.serializer", StringSerializer.class.getName());
            p.put("value.serializer", StringSerializer.class.getName());
            boolean one = key.startsWith("1");
            p.put("acks", one ? "1" : "all");
            p.put("enable.idempotence", one ? "false" : "true");
            if (one) p.put("retries", "0");
            if (key.startsWith("tx")) p.put("transactional.id", key);
            p.put("batch.size", "64");
            p.put("linger.ms", "0");
            if (key.contains(":")) {  // several records a batch
                p.put("compression.type", key.split(":")[1]);
                p.put("batch.size", "512");
                p.put("linger.ms", "20");
            }
            p.put("max.block.ms", "8000");
            p.put("request.timeout.ms", "4000");
            p.put("delivery.timeout.ms", "8000");
            p.put("metadata.max.age.ms", "2000");
            p.put("reconnect.backoff.max.ms", "500");
            if (key.startsWith("patient")) {  // a leader that nobody can follow may answer late
                p.put("request.timeout.ms", "60000");
                p.put("delivery.timeout.ms", "120000");
            }
            KafkaProducer<String, String> made = new KafkaProducer<>(p);
            if (key.startsWith("tx")) made.initTransactions();
            return made;
        });
    }

    /** As a monitor of consumer lag does: the latest offsets of all partitions again and again, each time in a file as
     *  kafka-get-offsets prints them, named by when it began to ask. What takes too long is of no use, and not written. */
    static void startMonitor(Path folder, int everyMs) {
        Thread monitor = new Thread(() -> {
            ListOffsetsOptions patience = new ListOffsetsOptions().timeoutMs(2000);
            try (Admin own = Admin.create(settings)) {
                while (true) {
                    Thread.sleep(everyMs);
                    try {
                        var names = own.listTopics(new ListTopicsOptions().timeoutMs(2000)).names().get();
                        var topics = own.describeTopics(names, new DescribeTopicsOptions().timeoutMs(2000)).allTopicNames().get();
                        Map<TopicPartition, OffsetSpec> asked = new HashMap<>();
                        topics.forEach((name, topic) -> topic.partitions().forEach(
                            p -> asked.put(new TopicPartition(name, p.partition()), OffsetSpec.latest())));
                        long at = System.currentTimeMillis();
                        var told = own.listOffsets(asked, patience);
                        StringBuilder text = new StringBuilder();
                        for (TopicPartition p : asked.keySet()) {
                            try {
                                text.append(p.topic() + ":" + p.partition() + ":" + told.partitionResult(p).get().offset() + "\n");
                            } catch (ExecutionException e) {  // nobody leads it, or did not answer
                            }
                        }
                        if (System.currentTimeMillis() - at < 4000 && text.length() > 0)
                            Files.writeString(folder.resolve(at + "-kafka-get-offsets.txt"), text);
                    } catch (ExecutionException e) {  // nobody answered
                    }
                }
            } catch (InterruptedException | IOException e) {
                throw new IllegalStateException(e);
            }
        });
        monitor.setDaemon(true);
        monitor.start();
    }

    static synchronized String value() {
        return "v" + next++;
    }

    static void send(KafkaProducer<String, String> producer, String topic, int partition, String acks) {
        send(producer, topic, partition, acks, null);
    }

    static void send(KafkaProducer<String, String> producer, String topic, int partition, String acks, String of) {
        String value = value();
        long sent = System.currentTimeMillis();
        String head = "\"topic\":" + text(topic) + ",\"partition\":" + partition + ",\"value\":" + text(value)
            + ",\"acks\":" + text(acks) + ",\"key\":" + (of == null ? "null" : text(of)) + ",\"sent_ms\":" + sent;
        try {
            producer.send(new ProducerRecord<>(topic, partition, of, value), (at, error) -> {
                String times = head + ",\"at_ms\":" + System.currentTimeMillis();
                if (error == null) print("{\"ack\":{" + times + ",\"offset\":" + at.offset() + "}}");
                else print("{\"failed\":{" + times + ",\"why\":" + text(error.toString()) + "}}");
            });
        } catch (KafkaException error) {
            print("{\"failed\":{" + head + ",\"at_ms\":" + System.currentTimeMillis() + ",\"why\":"
                + text(error.toString()) + "}}");
        }
    }

    /** With so many keys in turn, or none. */
    static void produce(String topic, int partition, int count, String acks, String codec, int keys) {
        KafkaProducer<String, String> producer = producer(codec.equals("none") ? acks : acks + ":" + codec);
        for (int i = 0; i < count; i++) send(producer, topic, partition, acks, keys == 0 ? null : "k" + i % keys);
        producer.flush();
    }

    /** So many records by each of so many producers, at once; nobody waits for the answers. */
    static void sendBy(String topic, int partition, int count, int threads) {
        for (int t = 0; t < threads; t++) producer("patient-" + t).partitionsFor(topic);
        for (int i = 0; i < count; i++)
            for (int t = 0; t < threads; t++) send(producer("patient-" + t), topic, partition, "all");
    }

    static void transact(String topic, int partition, int count, boolean commit) {
        String name = "tx-" + topic + "-" + partition;
        try {
            KafkaProducer<String, String> producer = producer(name);
            producer.beginTransaction();
            for (int i = 0; i < count; i++) send(producer, topic, partition, "all");
            if (commit) producer.commitTransaction();
            else {
                producer.flush();  // what was not sent yet would never be written
                producer.abortTransaction();
            }
        } catch (KafkaException error) {
            // The next transaction begins with a new producer, which ends this one.
            KafkaProducer<String, String> broken = producers.remove(name);
            if (broken != null) broken.close(Duration.ZERO);
            marker(topic, partition);  // and one that aborts it, perhaps
            throw error;
        } finally {
            marker(topic, partition);
        }
    }

    static void marker(String topic, int partition) {
        print("{\"marker\":{\"topic\":" + text(topic) + ",\"partition\":" + partition + ",\"sent_ms\":"
            + System.currentTimeMillis() + "}}");
    }

    /** Sends a record to each partition, named topic-partition, every so many milliseconds. */
    static void startLoad(List<String> partitions, String acks, int everyMs) throws Exception {
        stopLoad();
        KafkaProducer<String, String> producer = producer(acks);
        load = new Thread(() -> {
            try {
                while (!Thread.currentThread().isInterrupted()) {
                    for (String p : partitions) {
                        TopicPartition at = partition(p);
                        send(producer, at.topic(), at.partition(), acks);
                    }
                    Thread.sleep(everyMs);
                }
            } catch (InterruptedException | org.apache.kafka.common.errors.InterruptException e) {
                return;
            }
        });
        load.start();
    }

    static void stopLoad() throws Exception {
        if (load == null) return;
        load.interrupt();
        load.join();
        load = null;
        for (KafkaProducer<String, String> p : producers.values()) p.flush();
    }

    static String describe() throws Exception {
        long before = System.currentTimeMillis();
        Set<String> names = new TreeSet<>(admin.listTopics().names().get());
        List<String> rows = new ArrayList<>();
        for (TopicDescription t : new TreeMap<>(admin.describeTopics(names).allTopicNames().get()).values()) {
            for (TopicPartitionInfo p : t.partitions()) {
                rows.add("{\"topic\":" + text(t.name()) + ",\"topic_id\":" + text(t.topicId().toString())
                    + ",\"partition\":" + p.partition() + ",\"leader\":" + (p.leader() == null || p.leader().isEmpty() ? -1 : p.leader().id())
                    + ",\"replicas\":" + ids(p.replicas()) + ",\"isr\":" + ids(p.isr()) + ",\"elr\":" + ids(p.elr())
                    + ",\"last_known_elr\":" + ids(p.lastKnownElr()) + "}");
            }
        }
        return "{\"before_ms\":" + before + ",\"after_ms\":" + System.currentTimeMillis() + ",\"partitions\":" + rows + "}";
    }

    static String ids(Collection<Node> nodes) {
        return nodes == null ? "null" : nodes.stream().map(Node::id).sorted().collect(Collectors.toList()).toString();
    }

    /** Where the log begins, and everything that a reader gets: [[offset, value], ...] up to the high watermark. */
    static String read(String topic, int partition) throws Exception {
        Properties p = new Properties();
        p.put("bootstrap.servers", servers);
        p.put("key.deserializer", StringDeserializer.class.getName());
        p.put("value.deserializer", StringDeserializer.class.getName());
        p.put("enable.auto.commit", "false");
        p.put("auto.offset.reset", "none");
        p.put("default.api.timeout.ms", "20000");
        List<String> rows = new ArrayList<>();
        TopicPartition at = new TopicPartition(topic, partition);
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(p)) {
            consumer.assign(List.of(at));
            long end = consumer.endOffsets(List.of(at)).get(at);
            long begin = consumer.beginningOffsets(List.of(at)).get(at);
            consumer.seekToBeginning(List.of(at));
            long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(20);
            while (consumer.position(at) < end) {
                if (System.nanoTime() > deadline) throw new IllegalStateException("no end of " + at + " in 20 s");
                for (ConsumerRecord<String, String> r : consumer.poll(Duration.ofMillis(200)))
                    rows.add("[" + r.offset() + "," + text(r.value()) + "]");
            }
            return "{\"begin\":" + begin + ",\"end\":" + end + ",\"records\":[" + String.join(",", rows) + "]}";
        }
    }

    static void config(String kind, String name, String setting) throws Exception {
        ConfigResource.Type type = kind.equals("topic") ? ConfigResource.Type.TOPIC : ConfigResource.Type.BROKER;
        String[] pair = setting.split("=", -1);
        AlterConfigOp.OpType op = pair[1].isEmpty() ? AlterConfigOp.OpType.DELETE : AlterConfigOp.OpType.SET;
        AlterConfigOp change = new AlterConfigOp(new ConfigEntry(pair[0], pair[1]), op);
        admin.incrementalAlterConfigs(Map.of(new ConfigResource(type, name), List.of(change))).all().get();
    }

    static void elect(String type, List<String> partitions) throws Exception {
        Set<TopicPartition> of = partitions.stream().map(DrillClient::partition).collect(Collectors.toSet());
        for (int tries = 1; ; tries++)
            try (Admin asked = Admin.create(settings)) {  // chooses a broker, which may be cut off from the controllers
                var answer = asked.electLeaders(ElectionType.valueOf(type), of, new ElectLeadersOptions().timeoutMs(5000));
                for (Optional<Throwable> failure : answer.partitions().get().values())
                    if (failure.isPresent() && !(failure.get() instanceof ElectionNotNeededException))
                        throw new IllegalStateException(failure.get());
                return;
            } catch (ExecutionException e) {
                if (!(e.getCause() instanceof TimeoutException) || tries == 4) throw e;
            }
    }

    static void reassign(String topic, int partition, String replicas) throws Exception {
        Optional<NewPartitionReassignment> to = replicas.equals("cancel")
            ? Optional.empty() : Optional.of(new NewPartitionReassignment(numbers(replicas)));
        admin.alterPartitionReassignments(Map.of(new TopicPartition(topic, partition), to)).all().get();
    }

    /** Moves a replica to another log directory of its broker. */
    static void move(TopicPartitionReplica replica) throws Exception {
        int broker = replica.brokerId();
        TopicPartition at = new TopicPartition(replica.topic(), replica.partition());
        for (var dir : admin.describeLogDirs(List.of(broker)).allDescriptions().get().get(broker).entrySet())
            if (!dir.getValue().replicaInfos().containsKey(at)) {
                admin.alterReplicaLogDirs(Map.of(replica, dir.getKey())).all().get();
                return;
            }
        throw new IllegalStateException(replica + " has no other log directory");
    }

    static void feature(String name, short level) throws Exception {
        FeatureUpdate.UpgradeType type = level == 0 ? FeatureUpdate.UpgradeType.SAFE_DOWNGRADE : FeatureUpdate.UpgradeType.UPGRADE;
        admin.updateFeatures(Map.of(name, new FeatureUpdate(level, type)), new UpdateFeaturesOptions()).all().get();
    }

    static TopicPartition partition(String name) {
        int at = name.lastIndexOf('-');
        return new TopicPartition(name.substring(0, at), Integer.parseInt(name.substring(at + 1)));
    }

    static List<Integer> numbers(String list) {
        return Arrays.stream(list.split(",")).map(Integer::valueOf).collect(Collectors.toList());
    }

    static String text(String s) {
        StringBuilder b = new StringBuilder("\"");
        for (char c : s.toCharArray()) {
            if (c == '"' || c == '\\') b.append('\\').append(c);
            else if (c < ' ' || c > '~') b.append(String.format("\\u%04x", (int) c));
            else b.append(c);
        }
        return b.append('"').toString();
    }

    static void print(String line) {
        synchronized (OUT) {
            OUT.println(line);
            OUT.flush();
        }
    }
}
