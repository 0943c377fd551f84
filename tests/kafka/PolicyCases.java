import java.io.BufferedOutputStream;
import java.io.PrintStream;
import java.lang.reflect.Constructor;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.IntPredicate;
import java.util.stream.Collectors;
import java.util.stream.Stream;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.DirectoryId;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metadata.MetadataJsonConverters;
import org.apache.kafka.common.metadata.PartitionChangeRecord;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.controller.PartitionChangeBuilder;
import org.apache.kafka.metadata.LeaderRecoveryState;
import org.apache.kafka.metadata.PartitionRegistration;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.MetadataVersion;

/**
 * Random partition states and triggers, and the record that this release's PartitionChangeBuilder makes of each, as JSON
 * lines: `java PolicyCases RELEASE SEED COUNT`. Every list is drawn on its own, so that they meet in every relation,
 * also in those that a cluster seldom has.
 */
public class PolicyCases {
    private static final ObjectMapper MAPPER = new ObjectMapper();
    private static final Uuid TOPIC_ID = new Uuid(0, 2);
    private static final MetadataVersion LATEST = MetadataVersion.latestProduction();
    /** Those of KRaft that this release lets a cluster have, and those of them that write its newest records. */
    private static final List<MetadataVersion> VERSIONS = Arrays.stream(MetadataVersion.values())
        .filter(v -> v.featureLevel() > 0 && v.compareTo(LATEST) <= 0).collect(Collectors.toList());
    private static final List<MetadataVersion> NEWEST = VERSIONS.stream()
        .filter(v -> v.partitionChangeRecordVersion() == LATEST.partitionChangeRecordVersion())
        .collect(Collectors.toList());

    private final Random random;
    private final List<Integer> brokers;
    private final MetadataVersion version;
    private final boolean holdsElr;
    private final boolean elrEnabled;

    private PolicyCases(Random random) {
        this.random = random;
        Set<Integer> ids = new HashSet<>();
        int count = 1 + random.nextInt(16);
        int bound = oneIn(3) ? 100_000 : 17;
        while (ids.size() < count) ids.add(random.nextInt(bound));
        this.brokers = shuffled(ids);
        this.version = pick(oneIn(3) ? VERSIONS : NEWEST);
        this.holdsElr = version.partitionChangeRecordVersion() >= 2;
        this.elrEnabled = holdsElr && !oneIn(6);
    }

    public static void main(String[] arguments) throws Exception {
        Random random = new Random(Long.parseLong(arguments[1]));
        int count = Integer.parseInt(arguments[2]);
        try (PrintStream out = new PrintStream(new BufferedOutputStream(System.out))) {
            for (int i = 0; i < count; i++) {
                ObjectNode line = MAPPER.createObjectNode().put("case", i).put("kafka", arguments[0]);
                new PolicyCases(random).write(line);
                out.println(line);
            }
        }
    }

    private void write(ObjectNode line) throws Exception {
        PartitionRegistration partition = partition();
        int minIsr = 1 + random.nextInt(4);
        Set<Integer> acceptable = new TreeSet<>(some(brokers));
        PartitionChangeBuilder.Election election = pick(List.of(PartitionChangeBuilder.Election.values()));
        PartitionChangeBuilder builder = builder(partition, acceptable::contains, minIsr)
            .setElection(election)
            .setDefaultDirProvider(broker -> DirectoryId.UNASSIGNED);
        line.put("elr_enabled", elrEnabled).put("min_isr", minIsr).put("metadata_version", version.toString());
        line.put("election", election.name()).set("acceptable_leaders", json(acceptable));
        line.set("state", state(partition));
        trigger(partition, builder, line);
        Optional<ApiMessageAndVersion> built = builder.build();
        if (built.isEmpty()) {
            line.putNull("change").set("state_after", state(partition));
            return;
        }
        PartitionChangeRecord change = (PartitionChangeRecord) built.get().message();
        line.set("change", MetadataJsonConverters.writeJson(change, built.get().version()));
        line.put("change_version", built.get().version());
        line.set("state_after", state(partition.merge(change)));
    }

    /** Up to 4.0 whether ELR is on has a setter of its own; it is the constructor's last argument since. */
    private PartitionChangeBuilder builder(PartitionRegistration partition, IntPredicate acceptable, int minIsr)
            throws Exception {
        List<Object> arguments = new ArrayList<>(List.of(partition, TOPIC_ID, 0, acceptable, version, minIsr));
        Constructor<?> constructor = PartitionChangeBuilder.class.getConstructors()[0];
        if (constructor.getParameterCount() > arguments.size()) {
            arguments.add(elrEnabled);
            return (PartitionChangeBuilder) constructor.newInstance(arguments.toArray());
        }
        Object builder = constructor.newInstance(arguments.toArray());
        return (PartitionChangeBuilder) PartitionChangeBuilder.class
            .getMethod("setEligibleLeaderReplicasEnabled", boolean.class).invoke(builder, elrEnabled);
    }

    private PartitionRegistration partition() {
        List<Integer> replicas = replicas();
        List<Integer> isr = oneIn(5) ? (holdsElr ? List.of() : replicas.subList(0, 1)) : some(replicas);
        List<Integer> elr = oneIn(3) ? List.of() : oneIn(5) ? some(brokers) : some(without(replicas, isr));
        List<List<Integer>> known = List.of(List.of(), List.of(pick(replicas)), List.of(-1), some(brokers));
        PartitionRecord record = new PartitionRecord()
            .setTopicId(TOPIC_ID)
            .setReplicas(replicas)
            .setIsr(isr)
            .setLeader(oneIn(3) ? -1 : oneIn(4) || isr.isEmpty() ? pick(replicas) : pick(isr))
            .setLeaderEpoch(random.nextInt(100))
            .setPartitionEpoch(random.nextInt(100))
            .setLeaderRecoveryState((byte) (oneIn(3) ? 1 : 0))
            .setDirectories(replicas.stream().map(replica -> directory()).collect(Collectors.toList()));
        if (oneIn(3)) record.setAddingReplicas(few(replicas)).setRemovingReplicas(few(replicas));
        if (holdsElr) record.setEligibleLeaderReplicas(elr).setLastKnownElr(known.get(random.nextInt(oneIn(4) ? 4 : 2)));
        return new PartitionRegistration(record);
    }

    private void trigger(PartitionRegistration partition, PartitionChangeBuilder builder, ObjectNode line) {
        List<Integer> replicas = list(partition.replicas);
        if (oneIn(2)) {
            List<Integer> isr = targetIsr(replicas, list(partition.isr));
            builder.setTargetIsr(isr);
            line.set("target_isr", json(isr));
        }
        if (oneIn(4)) {
            List<Integer> unclean = some(brokers);
            builder.setUncleanShutdownReplicas(unclean);
            line.set("unclean_shutdown_replicas", json(unclean));
        }
        if (oneIn(6)) {
            LeaderRecoveryState recovery = pick(List.of(LeaderRecoveryState.values()));
            builder.setTargetLeaderRecoveryState(recovery);
            line.put("target_leader_recovery_state", recovery.name());
        }
        if (oneIn(3)) {
            // A reassignment begins; or it is any other mixture of lists, a cancellation among them.
            List<Integer> wanted = oneIn(4) ? shuffled(replicas) : replicas();
            List<Integer> adding = oneIn(4) ? few(brokers) : without(wanted, replicas);
            List<Integer> removing = oneIn(4) ? few(brokers) : without(replicas, wanted);
            List<Integer> target = oneIn(4) ? wanted : joined(wanted, removing);
            builder.setTargetReplicas(target).setTargetAdding(adding).setTargetRemoving(removing);
            line.set("target_replicas", json(target));
            line.set("target_adding_replicas", json(adding));
            line.set("target_removing_replicas", json(removing));
        }
    }

    /** A broker leaves the ISR, or replicas join it, or it is any list. */
    private List<Integer> targetIsr(List<Integer> replicas, List<Integer> isr) {
        switch (random.nextInt(4)) {
            case 0: return without(isr, List.of(pick(brokers)));
            case 1: return joined(isr, some(replicas));
            case 2: return some(replicas);
            default: return some(brokers);
        }
    }

    private List<Integer> replicas() {
        List<Integer> all = shuffled(brokers);
        return all.subList(0, 1 + random.nextInt(Math.min(8, all.size())));
    }

    private Uuid directory() {
        if (!version.isDirectoryAssignmentSupported()) return DirectoryId.MIGRATING;
        return pick(List.of(DirectoryId.UNASSIGNED, DirectoryId.MIGRATING, new Uuid(7, 1), new Uuid(7, 2)));
    }

    private boolean oneIn(int count) {
        return random.nextInt(count) == 0;
    }

    private <T> T pick(List<T> from) {
        return from.get(random.nextInt(from.size()));
    }

    private List<Integer> shuffled(Collection<Integer> members) {
        List<Integer> result = new ArrayList<>(members);
        Collections.shuffle(result, random);
        return result;
    }

    /** Any number of them, in any order. */
    private List<Integer> some(Collection<Integer> members) {
        return shuffled(members).subList(0, random.nextInt(members.size() + 1));
    }

    private List<Integer> few(Collection<Integer> members) {
        return shuffled(members).subList(0, Math.min(members.size(), random.nextInt(4)));
    }

    private static List<Integer> without(List<Integer> members, List<Integer> others) {
        return members.stream().filter(m -> !others.contains(m)).collect(Collectors.toList());
    }

    private static List<Integer> joined(List<Integer> members, List<Integer> others) {
        return Stream.concat(members.stream(), others.stream()).distinct().collect(Collectors.toList());
    }

    private static List<Integer> list(int[] members) {
        return Arrays.stream(members).boxed().collect(Collectors.toList());
    }

    private static JsonNode json(Object value) {
        return MAPPER.valueToTree(value);
    }

    private static ObjectNode state(PartitionRegistration partition) {
        ObjectNode state = MAPPER.createObjectNode();
        state.set("replicas", json(partition.replicas));
        state.set("isr", json(partition.isr));
        state.set("removing_replicas", json(partition.removingReplicas));
        state.set("adding_replicas", json(partition.addingReplicas));
        state.set("elr", json(partition.elr));
        state.set("last_known_elr", json(partition.lastKnownElr));
        state.put("leader", partition.leader).put("leader_recovery_state", partition.leaderRecoveryState.name());
        state.put("leader_epoch", partition.leaderEpoch).put("partition_epoch", partition.partitionEpoch);
        state.set("directories", json(Arrays.stream(partition.directories).map(Uuid::toString).toArray()));
        return state;
    }
}
