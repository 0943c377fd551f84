package org.apache.kafka.controller;

import java.io.BufferedOutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.util.AbstractMap.SimpleImmutableEntry;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import java.util.stream.Stream;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.clients.admin.AlterConfigOp.OpType;
import org.apache.kafka.clients.admin.FeatureUpdate.UpgradeType;
import org.apache.kafka.common.DirectoryId;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.message.AlterPartitionReassignmentsRequestData;
import org.apache.kafka.common.message.AlterPartitionRequestData;
import org.apache.kafka.common.message.AssignReplicasToDirsRequestData;
import org.apache.kafka.common.message.BrokerHeartbeatRequestData;
import org.apache.kafka.common.message.BrokerRegistrationRequestData;
import org.apache.kafka.common.message.CreatePartitionsRequestData.CreatePartitionsTopic;
import org.apache.kafka.common.message.CreateTopicsRequestData;
import org.apache.kafka.common.message.ElectLeadersRequestData;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.metadata.ConfigRecord;
import org.apache.kafka.common.metadata.FeatureLevelRecord;
import org.apache.kafka.common.metadata.NoOpRecord;
import org.apache.kafka.common.metadata.RegisterBrokerRecord;
import org.apache.kafka.common.metadata.RegisterControllerRecord;
import org.apache.kafka.common.metadata.RemoveTopicRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.metadata.BrokerRegistration;
import org.apache.kafka.metadata.KafkaConfigSchema;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.metadata.PartitionRegistration;
import org.apache.kafka.metadata.VersionRange;
import org.apache.kafka.metadata.placement.StripedReplicaPlacer;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.server.config.ConfigSynonym;
import org.apache.kafka.timeline.SnapshotRegistry;

/**
 * A controller at work: random requests to this release's own managers of brokers, replication, configs and features,
 * in one process: `java org.apache.kafka.controller.ControllerLives SEED EVENTS`.
 *
 * Prints a JSON line for each event that writes records: the records as bytes, and the states of all partitions, their
 * effective configs and the active brokers, as the managers have them once they have replayed the records. Lines about
 * a new leader of the quorum, whose log begins with one more record, stand between them. What differs between releases
 * is called by name: the builders' setters, and methods that moved.
 */
public class ControllerLives {
    private static final ObjectMapper MAPPER = new ObjectMapper();
    private static final List<Integer> CONTROLLERS = List.of(3000, 3001, 3002);
    private static final String MIN_ISR = "min.insync.replicas", UNCLEAN = "unclean.leader.election.enable";
    private static final String VERSION = MetadataVersion.FEATURE_NAME, ELR = "eligible.leader.replicas.version";
    private static final MetadataVersion LATEST = MetadataVersion.latestProduction();
    /** The first one whose registrations name directories is 15; before 7 (3.3) KRaft was not for production. */
    private static final List<MetadataVersion> VERSIONS = Arrays.stream(MetadataVersion.values())
        .filter(v -> v.featureLevel() >= 7 && v.compareTo(LATEST) <= 0).collect(Collectors.toList());

    private final Random random;
    private final PrintStream out;
    private final int brokerCount;
    private final Map<Integer, Map<String, Object>> staticConfigs = new TreeMap<>();
    private final Map<Integer, List<Uuid>> directories = new HashMap<>();
    private final Set<Integer> down = new HashSet<>();
    private final Map<String, Uuid> topics = new TreeMap<>();
    private final List<Object[]> log = new ArrayList<>();
    private long nowMs = 1_790_000_000_000L;
    private long offset;
    private int epoch = 1;
    private int active = CONTROLLERS.get(0);
    private short level;
    private FeatureControlManager features;
    private ConfigurationControlManager configs;
    private ClusterControlManager cluster;
    private ReplicationControlManager replication;

    private final Time time = new Time() {
        public long milliseconds() {
            return nowMs;
        }

        public long nanoseconds() {
            return nowMs * 1_000_000;
        }

        public void sleep(long ms) {
            nowMs += ms;
        }

        public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
        }
    };

    private ControllerLives(Random random, PrintStream out) {
        this.random = random;
        this.out = out;
        this.brokerCount = 3 + random.nextInt(7);
        for (int controller : CONTROLLERS) {
            Map<String, Object> own = new HashMap<>();
            if (oneIn(2)) own.put(MIN_ISR, String.valueOf(1 + random.nextInt(3)));
            if (oneIn(3)) own.put(UNCLEAN, String.valueOf(oneIn(2)));
            staticConfigs.put(controller, own);
        }
    }

    public static void main(String[] arguments) throws Exception {
        try (PrintStream out = new PrintStream(new BufferedOutputStream(System.out))) {
            new ControllerLives(new Random(Long.parseLong(arguments[0])), out).live(Integer.parseInt(arguments[1]));
        }
    }

    private void live(int events) throws Exception {
        out.println(MAPPER.createObjectNode().put("event", "begin").set("static", MAPPER.valueToTree(staticConfigs)));
        level = (oneIn(3) ? pick(VERSIONS) : LATEST).featureLevel();
        List<ApiMessageAndVersion> first = new ArrayList<>(List.of(feature(VERSION, level)));
        if (knowsElr() && level >= 23 && !oneIn(3)) first.add(feature(ELR, (short) 1));
        if (oneIn(2)) {
            ConfigRecord config = new ConfigRecord().setResourceType((byte) 4).setResourceName("").setName(MIN_ISR);
            first.add(new ApiMessageAndVersion(config.setValue(String.valueOf(1 + random.nextInt(3))), (short) 0));
        }
        lead(first);
        for (int i = 0; i < events; i++) {
            nowMs += oneIn(30) ? 3_000 : random.nextInt(400);
            try {
                step();
            } catch (ApiException refused) {
                // The request changes nothing.
            } catch (RuntimeException error) {
                // 4.0 to 4.3 keep entries of deleted topics; 4.3 cannot elect a last known leader that is no replica.
                Throwable cause = Stream.iterate((Throwable) error, t -> t != null, Throwable::getCause)
                    .reduce((a, b) -> b).get();
                String known = "existed in isrMembers|not assigned to this partition";
                if (!String.valueOf(cause.getMessage()).matches("(?s).*(" + known + ").*")) throw error;
                failOver();
            }
        }
    }

    // The managers.

    private void lead(List<ApiMessageAndVersion> first) throws Exception {
        out.println(MAPPER.createObjectNode().put("event", "leader").put("controller", active).put("epoch", epoch)
            .put("base", offset++));
        build();
        emit("first records", first);
        RegisterControllerRecord own = new RegisterControllerRecord().setControllerId(active)
            .setIncarnationId(new Uuid(5, active));
        supported().forEach((name, range) -> own.features().add(new RegisterControllerRecord.ControllerFeature()
            .setName(name).setMinSupportedVersion(range.min()).setMaxSupportedVersion(range.max())));
        if (level >= 15) emit("controller", List.of(new ApiMessageAndVersion(own, (short) 0)));
    }

    private void failOver() throws Exception {
        epoch++;
        active = pick(CONTROLLERS);
        lead(List.of());
    }

    private void build() throws Exception {
        Object logContext = logContext();
        Object registry = SnapshotRegistry.class.getConstructors()[0].newInstance(logContext);
        features = (FeatureControlManager) built(new FeatureControlManager.Builder(), logContext, registry, Map.of(
            "setQuorumFeatures", new QuorumFeatures(active, supported(), CONTROLLERS),
            "setMetadataVersion", VERSIONS.get(0)));
        configs = (ConfigurationControlManager) built(new ConfigurationControlManager.Builder(), logContext, registry, Map.of(
            "setKafkaConfigSchema", schema(), "setStaticConfig", staticConfigs.get(active), "setNodeId", active,
            "setFeatureControl", features));
        ClusterControlManager.Builder brokers = new ClusterControlManager.Builder();
        for (Method method : brokers.getClass().getDeclaredMethods()) {
            if (method.getName().endsWith("ShutdownHandler")) method.invoke(brokers, shutdownHandler(method.getParameterTypes()[0]));
        }
        cluster = (ClusterControlManager) built(brokers, logContext, registry, Map.of("setClusterId", "c", "setTime", time,
            "setReplicaPlacer", new StripedReplicaPlacer(random), "setFeatureControlManager", features));
        replication = (ReplicationControlManager) built(new ReplicationControlManager.Builder(), logContext, registry, Map.of(
            "setConfigurationControl", configs, "setClusterControl", cluster, "setFeatureControl", features,
            "setMaxElectionsPerImbalance", 5));
        for (Object[] entry : log) replay((ApiMessage) entry[0], (Long) entry[1]);
        cluster.activate();
    }

    private static Object logContext() throws Exception {
        String in43 = "org.apache.kafka.common.utils.LogContext", in44 = "org.apache.kafka.common.utils.internals.LogContext";
        try {
            return Class.forName(in44).getConstructor().newInstance();
        } catch (ClassNotFoundException earlier) {
            return Class.forName(in43).getConstructor().newInstance();
        }
    }

    private static Object built(Object builder, Object logContext, Object registry, Map<String, Object> more)
            throws Exception {
        Map<String, Object> values = new HashMap<>(more);
        values.put("setLogContext", logContext);
        values.put("setSnapshotRegistry", registry);
        for (var value : values.entrySet()) if (knows(builder, value.getKey())) call(builder, value.getKey(), value.getValue());
        return call(builder, "build");
    }

    /** What a broker's unclean start does to the ISR and the ELR: the method has had three names. */
    private Object shutdownHandler(Class<?> type) {
        String name = Stream.of("handleBrokerShutdown", "handleBrokerUncleanShutdown", "handleUncleanBrokerShutdown")
            .filter(each -> Arrays.stream(ReplicationControlManager.class.getDeclaredMethods()).anyMatch(m -> m.getName().equals(each)))
            .findFirst().get();
        return Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[]{type}, (proxy, method, given) -> call(replication, name, given));
    }

    private static KafkaConfigSchema schema() {
        ConfigDef def = new ConfigDef().define(MIN_ISR, ConfigDef.Type.INT, 1, ConfigDef.Importance.LOW, "")
            .define(UNCLEAN, ConfigDef.Type.BOOLEAN, false, ConfigDef.Importance.LOW, "")
            .define("retention.ms", ConfigDef.Type.LONG, 1L, ConfigDef.Importance.LOW, "");
        return new KafkaConfigSchema(
            Map.of(ConfigResource.Type.BROKER, def, ConfigResource.Type.TOPIC, def),
            def.names().stream().collect(Collectors.toMap(name -> name, name -> List.of(new ConfigSynonym(name)))));
    }

    private static boolean knowsElr() {
        try {
            Class.forName("org.apache.kafka.server.common.EligibleLeaderReplicasVersion");
            return true;
        } catch (ClassNotFoundException before40) {
            return false;
        }
    }

    private static Map<String, VersionRange> supported() {
        Map<String, VersionRange> found = new TreeMap<>();
        found.put(VERSION, VersionRange.of(VERSIONS.get(0).featureLevel(), LATEST.featureLevel()));
        if (knowsElr()) found.put(ELR, VersionRange.of((short) 0, (short) 1));
        return found;
    }

    private boolean elrIsOn() throws Exception {
        return knows(features, "isElrFeatureEnabled") && (Boolean) call(features, "isElrFeatureEnabled");
    }

    // Records.

    private static ApiMessageAndVersion feature(String name, short level) {
        return new ApiMessageAndVersion(new FeatureLevelRecord().setName(name).setFeatureLevel(level), (short) 0);
    }

    private void replay(ApiMessage message, long at) throws Exception {
        if (message instanceof NoOpRecord) return;
        if (message instanceof RegisterBrokerRecord broker) {
            cluster.replay(broker, at);
            return;
        }
        for (Object manager : List.of(replication, cluster, configs, features)) {
            for (Method method : manager.getClass().getDeclaredMethods()) {
                if (method.getName().equals("replay") && method.getParameterTypes()[0] == message.getClass()) {
                    invoke(manager, method, message);
                    return;
                }
            }
        }
        throw new IllegalStateException("nobody replays " + message);
    }

    private void emit(String event, Object result) throws Exception {
        emit(event, ((ControllerResult<?>) result).records());
    }

    private void emit(String event, List<ApiMessageAndVersion> records) throws Exception {
        if (records.isEmpty()) return;
        ObjectNode line = MAPPER.createObjectNode().put("event", event).put("base", offset).put("timestamp_ms", nowMs)
            .put("epoch", epoch);
        ArrayNode bytes = line.putArray("records");
        for (ApiMessageAndVersion record : records) {
            ObjectSerializationCache cache = new ObjectSerializationCache();
            ByteBuffer buffer = ByteBuffer.allocate(MetadataRecordSerde.INSTANCE.recordSize(record, cache));
            MetadataRecordSerde.INSTANCE.write(record, cache, new ByteBufferAccessor(buffer));
            bytes.add(HexFormat.of().formatHex(buffer.array()));
            log.add(new Object[]{record.message(), offset});
            replay(record.message(), offset++);
            if (record.message() instanceof TopicRecord topic) topics.put(topic.name(), topic.topicId());
            if (record.message() instanceof RemoveTopicRecord topic) topics.values().remove(topic.topicId());
        }
        ArrayNode partitions = line.putArray("partitions");
        for (Place place : places()) partitions.add(state(place));
        line.set("active", MAPPER.valueToTree(registered().stream().filter(cluster::isActive).toList()));
        out.println(line.put("elr_enabled", elrIsOn()));
    }

    private ObjectNode state(Place place) throws Exception {
        PartitionRegistration state = place.state();
        ObjectNode row = MAPPER.createObjectNode().put("topic_id", place.topicId.toString()).put("partition", place.partition);
        row.put("min_isr", (Integer) call(replication, "getTopicEffectiveMinIsr", place.topic));
        row.put("unclean", (Boolean) call(configs, "uncleanLeaderElectionEnabledForTopic", place.topic));
        row.set("replicas", MAPPER.valueToTree(state.replicas));
        row.set("isr", MAPPER.valueToTree(state.isr));
        row.set("elr", MAPPER.valueToTree(state.elr));
        row.set("last_known_elr", MAPPER.valueToTree(state.lastKnownElr));
        row.set("removing_replicas", MAPPER.valueToTree(state.removingReplicas));
        row.set("adding_replicas", MAPPER.valueToTree(state.addingReplicas));
        row.set("directories", MAPPER.valueToTree(Arrays.stream(state.directories).map(Uuid::toString).toArray()));
        row.put("leader", state.leader).put("leader_epoch", state.leaderEpoch).put("partition_epoch", state.partitionEpoch);
        return row.put("leader_recovery_state", state.leaderRecoveryState.name());
    }

    // Requests.

    /** What may happen, and how often. */
    private void step() throws Exception {
        for (int broker : registered()) if (!down.contains(broker)) beats(broker);
        int chance = random.nextInt(100);
        if (chance < 14) registers();
        else if (chance < 30) heartbeats();
        else if (chance < 33) losesDirectory();
        else if (chance < 40) goesAway();
        else if (chance < 58) for (int i = random.nextInt(3); i >= 0; i--) altersIsr();
        else if (chance < 63) elects();
        else if (chance < 66) emit("balance", replication.maybeBalancePartitionLeaders());
        else if (chance < 69) sweeps();
        else if (chance < 77) reassigns();
        else if (chance < 82) createsOrDeletes();
        else if (chance < 84) addsPartition();
        else if (chance < 88) assignsDirectory();
        else if (chance < 95) setsConfig();
        else if (chance < 97) setsFeature();
        else if (chance < 98) unregisters();
        else if (chance < 99) failOver();
        else emit("no-op", List.of(new ApiMessageAndVersion(new NoOpRecord(), (short) 0)));
    }

    private void beats(int broker) throws Exception {
        BrokerRegistration own = registration(broker);
        if (knows(cluster, "trackBrokerHeartbeat")) call(cluster, "trackBrokerHeartbeat", broker, own.epoch());
        call(cluster.heartbeatManager(), "touch", broker, own.fenced(), offset);
    }

    private void registers() throws Exception {
        int broker = 1 + random.nextInt(brokerCount);
        BrokerRegistration before = registration(broker);
        boolean isRunning = before != null && !down.contains(broker) && !before.fenced();
        boolean isNew = before == null || !isRunning && !oneIn(6);
        down.remove(broker);
        List<Uuid> own = directories.computeIfAbsent(broker, id -> Stream.generate(this::uuid).limit(1 + random.nextInt(3)).toList());
        BrokerRegistrationRequestData request = new BrokerRegistrationRequestData().setBrokerId(broker).setClusterId("c")
            .setIncarnationId(isNew ? uuid() : before.incarnationId()).setLogDirs(own);
        if (oneIn(2)) request.setRack("r" + broker % 3);
        long epochBefore = before != null && oneIn(2) ? before.epoch() : -1;
        if (knows(request, "setPreviousBrokerEpoch")) call(request, "setPreviousBrokerEpoch", epochBefore);
        supported().forEach((name, range) -> request.features().add(new BrokerRegistrationRequestData.Feature().setName(name)
            .setMinSupportedVersion(range.min()).setMaxSupportedVersion(range.max())));
        emit("register", call(cluster, "registerBroker", request, offset, features.finalizedFeatures(Long.MAX_VALUE), true));
        if (oneIn(2)) heartbeat(broker, false, false, List.of());
    }

    /** A fenced one more often than others: it is unfenced. */
    private void heartbeats() throws Exception {
        List<Integer> fenced = registered().stream().filter(each -> registration(each).fenced()).toList();
        boolean comesBack = !fenced.isEmpty() && !oneIn(3);
        int broker = pick(comesBack ? fenced : registered());
        if (comesBack) down.remove(broker);
        if (!down.contains(broker)) heartbeat(broker, oneIn(12), oneIn(8), List.of());
    }

    private void losesDirectory() throws Exception {
        int broker = pick(registered());
        if (registration(broker).directories().size() > 1) heartbeat(broker, false, false, List.of(pick(directories.get(broker))));
    }

    private void heartbeat(int broker, boolean fences, boolean stops, List<Uuid> offline) throws Exception {
        if (registration(broker) == null) return;
        BrokerHeartbeatRequestData request = new BrokerHeartbeatRequestData().setBrokerId(broker)
            .setBrokerEpoch(registration(broker).epoch()).setCurrentMetadataOffset(offset + 1_000)
            .setWantFence(fences).setWantShutDown(stops).setOfflineLogDirs(offline);
        beats(broker);
        emit("heartbeat", replication.processBrokerHeartbeat(request, cluster.registerBrokerRecordOffset(broker).getAsLong()));
    }

    /** A broker sends no heartbeat any more, and may be fenced. */
    private void goesAway() throws Exception {
        if (!registered().isEmpty() && down.size() < brokerCount - 1) down.add(pick(registered()));
        for (int i = oneIn(2) ? 3 : 0; i > 0; i--) {
            nowMs += 4_000;
            for (int broker : registered()) if (!down.contains(broker)) beats(broker);
        }
        for (int i = oneIn(3) ? 2 : 1; i > 0; i--) emit("fence", replication.maybeFenceOneStaleBroker());
    }

    private void altersIsr() throws Exception {
        Place place = pick(places().stream().filter(each -> each.state().leader >= 0).toList());
        PartitionRegistration state = place.state();
        List<Integer> isr = new ArrayList<>();
        for (int each : state.replicas) {
            if (each == state.leader || !oneIn(3) && (cluster.isActive(each) || oneIn(6))) isr.add(each);
        }
        if (oneIn(4)) Collections.shuffle(isr, random);
        byte recovery = state.leaderRecoveryState.value();
        if (recovery == 1 && oneIn(2)) recovery = 0;
        else if (recovery == 1) isr = List.of(state.leader);
        var members = isr.stream().map(each -> new AlterPartitionRequestData.BrokerState().setBrokerId(each)
            .setBrokerEpoch(registration(each) == null ? -1 : registration(each).epoch())).toList();
        var partition = new AlterPartitionRequestData.PartitionData().setPartitionIndex(place.partition)
            .setLeaderEpoch(state.leaderEpoch).setPartitionEpoch(state.partitionEpoch).setLeaderRecoveryState(recovery)
            .setNewIsrWithEpochs(members);
        var topic = new AlterPartitionRequestData.TopicData().setTopicId(place.topicId).setPartitions(List.of(partition));
        emit("alter partition", replication.alterPartition(context(3), new AlterPartitionRequestData()
            .setBrokerId(state.leader).setBrokerEpoch(registration(state.leader).epoch()).setTopics(List.of(topic))));
    }

    private void elects() throws Exception {
        var request = new ElectLeadersRequestData().setElectionType((byte) random.nextInt(2)).setTopicPartitions(null);
        if (!oneIn(4)) {
            Place place = pick(places());
            var chosen = new ElectLeadersRequestData.TopicPartitionsCollection();
            chosen.add(new ElectLeadersRequestData.TopicPartitions().setTopic(place.topic).setPartitions(List.of(place.partition)));
            request.setTopicPartitions(chosen);
        }
        emit("elect", replication.electLeaders(request));
    }

    private void sweeps() throws Exception {
        String name = "maybeElectUncleanLeaders";
        if (knows(replication, name)) emit("unclean sweep", call(replication, name));
    }

    /** To any brokers, to the same in another order, to one less or one more; or what is under way is cancelled. */
    private void reassigns() throws Exception {
        Place place = pick(places());
        List<Integer> others = registered();
        Collections.shuffle(others, random);
        List<Integer> target = new ArrayList<>(others.subList(0, Math.min(others.size(), 1 + random.nextInt(4))));
        if (oneIn(2)) {
            target = Arrays.stream(place.state().replicas).boxed().collect(Collectors.toCollection(ArrayList::new));
            if (oneIn(2)) Collections.shuffle(target, random);
            else if (target.size() > 1) target.remove(random.nextInt(target.size()));
            if (oneIn(3) && !target.contains(others.get(0))) target.add(random.nextInt(target.size() + 1), others.get(0));
        }
        var partition = new AlterPartitionReassignmentsRequestData.ReassignablePartition().setPartitionIndex(place.partition)
            .setReplicas(oneIn(3) ? null : target);
        var topic = new AlterPartitionReassignmentsRequestData.ReassignableTopic().setName(place.topic)
            .setPartitions(List.of(partition));
        emit("reassign", replication.alterPartitionReassignments(
            new AlterPartitionReassignmentsRequestData().setTopics(List.of(topic))));
    }

    private void createsOrDeletes() throws Exception {
        if (topics.size() > 5) {
            emit("delete topic", replication.deleteTopics(context(6), List.of(pick(List.copyOf(topics.values())))));
            return;
        }
        String name = "t" + random.nextInt(8);
        var topic = new CreateTopicsRequestData.CreatableTopic().setName(name).setNumPartitions(1 + random.nextInt(4))
            .setReplicationFactor((short) (1 + random.nextInt(4)));
        for (String key : List.of(MIN_ISR, UNCLEAN)) {
            if (oneIn(3)) topic.configs().add(new CreateTopicsRequestData.CreatableTopicConfig().setName(key).setValue(value(key)));
        }
        var request = new CreateTopicsRequestData();
        request.topics().add(topic);
        emit("create topic", call(replication, "createTopics", context(7), request, Set.of(name), false));
    }

    private void addsPartition() throws Exception {
        Place place = pick(places());
        int count = (int) places().stream().filter(each -> each.topic.equals(place.topic)).count() + 1;
        emit("add partition", replication.createPartitions(context(3),
            List.of(new CreatePartitionsTopic().setName(place.topic).setCount(count))));
    }

    private void assignsDirectory() throws Exception {
        Place chosen = pick(places());
        int broker = pick(Arrays.stream(chosen.state().replicas).boxed().toList());
        if (registration(broker) == null) return;
        var directory = new AssignReplicasToDirsRequestData.DirectoryData()
            .setId(oneIn(6) ? DirectoryId.LOST : pick(directories.get(broker)));
        for (Place place : places()) {
            if (!place.equals(chosen) && !oneIn(4)) continue;
            var partition = new AssignReplicasToDirsRequestData.PartitionData().setPartitionIndex(place.partition);
            directory.topics().add(new AssignReplicasToDirsRequestData.TopicData().setTopicId(place.topicId)
                .setPartitions(List.of(partition)));
        }
        emit("assign directory", replication.handleAssignReplicasToDirs(new AssignReplicasToDirsRequestData()
            .setBrokerId(broker).setBrokerEpoch(registration(broker).epoch()).setDirectories(List.of(directory))));
    }

    private void setsConfig() throws Exception {
        String key = oneIn(8) ? "retention.ms" : oneIn(3) ? UNCLEAN : MIN_ISR;
        int kind = random.nextInt(5);
        int node = oneIn(2) ? pick(CONTROLLERS) : 1 + random.nextInt(brokerCount);
        ConfigResource resource = kind < 3
            ? new ConfigResource(ConfigResource.Type.TOPIC, pick(List.copyOf(topics.keySet())))
            : new ConfigResource(ConfigResource.Type.BROKER, kind == 3 ? "" : String.valueOf(node));
        var change = new SimpleImmutableEntry<>(oneIn(3) ? OpType.DELETE : OpType.SET, value(key));
        emit("config", call(configs, "incrementalAlterConfigs", Map.of(resource, Map.of(key, change)), false, false));
    }

    private String value(String key) {
        return key.equals(UNCLEAN) ? String.valueOf(oneIn(2)) : String.valueOf(1 + random.nextInt(4));
    }

    private void setsFeature() throws Exception {
        boolean isElr = knowsElr() && oneIn(2), up = !isElr || !elrIsOn();
        List<MetadataVersion> newer = VERSIONS.stream().filter(each -> each.featureLevel() > level).toList();
        short wanted = isElr ? (short) (up ? 1 : 0) : pick(newer).featureLevel();
        String name = isElr ? ELR : VERSION;
        // ELR needs configs, so that since 4.0 the manager of configs is asked first.
        Object manager = knows(configs, "updateFeatures") ? configs : features;
        long before = offset;
        emit("feature", call(manager, "updateFeatures", Map.of(name, wanted),
            Map.of(name, up ? UpgradeType.UPGRADE : UpgradeType.SAFE_DOWNGRADE), false, epoch));
        if (!isElr && offset > before) level = wanted;
    }

    private void unregisters() throws Exception {
        emit("unregister", replication.unregisterBroker(pick(registered())));
    }

    // Lookups.

    /** A partition. */
    private class Place {
        final String topic;
        final Uuid topicId;
        final int partition;

        Place(String topic, Uuid topicId, int partition) {
            this.topic = topic;
            this.topicId = topicId;
            this.partition = partition;
        }

        PartitionRegistration state() {
            return replication.getPartition(topicId, partition);
        }
    }

    private List<Place> places() {
        List<Place> found = new ArrayList<>();
        topics.forEach((name, id) -> {
            for (int i = 0; replication.getPartition(id, i) != null; i++) found.add(new Place(name, id, i));
        });
        return found;
    }

    private List<Integer> registered() {
        return new ArrayList<>(new TreeSet<>(cluster.brokerRegistrations().keySet()));
    }

    private BrokerRegistration registration(int broker) {
        return cluster.brokerRegistrations().get(broker);
    }

    private static ControllerRequestContext context(int version) {
        RequestHeaderData header = new RequestHeaderData().setRequestApiVersion((short) version);
        return new ControllerRequestContext(header, KafkaPrincipal.ANONYMOUS, OptionalLong.empty());
    }

    private Uuid uuid() {
        return new Uuid(random.nextLong(), random.nextLong() | 4_096);
    }

    private boolean oneIn(int count) {
        return random.nextInt(count) == 0;
    }

    /** One of them. Without any the event does not happen. */
    private <T> T pick(List<T> from) {
        if (from.isEmpty()) throw new ApiException("there is none");
        return from.get(random.nextInt(from.size()));
    }

    // Calls by name.

    private static boolean knows(Object object, String name) {
        return Arrays.stream(object.getClass().getDeclaredMethods()).anyMatch(method -> method.getName().equals(name));
    }

    /** A method of that name, with as many of the arguments as it takes: some releases' take less. */
    private static Object call(Object object, String name, Object... arguments) throws Exception {
        for (Method method : object.getClass().getDeclaredMethods()) {
            int count = method.getParameterCount();
            if (method.getName().equals(name) && count <= arguments.length && !method.isBridge()
                && (count == 0 || fits(method.getParameterTypes()[0], arguments[0]))) {
                return invoke(object, method, Arrays.copyOf(arguments, count));
            }
        }
        throw new IllegalStateException(object.getClass() + " has no " + name);
    }

    private static boolean fits(Class<?> type, Object argument) {
        return type.isPrimitive() || type.isInstance(argument);
    }

    private static Object invoke(Object object, Method method, Object... arguments) throws Exception {
        method.setAccessible(true);
        try {
            return method.invoke(object, arguments);
        } catch (InvocationTargetException error) {
            if (error.getCause() instanceof RuntimeException cause) throw cause;
            throw error;
        }
    }
}
