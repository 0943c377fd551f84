// Asks a running Kafka node over one plain connection and prints each response with Kafka's own generated
// JsonConverter; one response that a single node cannot give (ELR, no leader, an error) is filled by hand.
// java -cp '<kafka libs>/*' Responses.java <host> <port> <folder to write to> <log.dirs>
// The last one is replaced by /var/lib/kafka/data in what is written.
import com.fasterxml.jackson.databind.JsonNode;
import java.io.DataInputStream;
import java.io.IOException;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.DescribeLogDirsRequestData;
import org.apache.kafka.common.message.DescribeLogDirsResponseData;
import org.apache.kafka.common.message.DescribeLogDirsResponseDataJsonConverter;
import org.apache.kafka.common.message.DescribeQuorumResponseData;
import org.apache.kafka.common.message.DescribeQuorumResponseDataJsonConverter;
import org.apache.kafka.common.message.DescribeTopicPartitionsRequestData;
import org.apache.kafka.common.message.DescribeTopicPartitionsRequestData.TopicRequest;
import org.apache.kafka.common.message.DescribeTopicPartitionsResponseData;
import org.apache.kafka.common.message.DescribeTopicPartitionsResponseData.Cursor;
import org.apache.kafka.common.message.DescribeTopicPartitionsResponseData.DescribeTopicPartitionsResponsePartition;
import org.apache.kafka.common.message.DescribeTopicPartitionsResponseData.DescribeTopicPartitionsResponseTopic;
import org.apache.kafka.common.message.DescribeTopicPartitionsResponseDataJsonConverter;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.DescribeLogDirsRequest;
import org.apache.kafka.common.requests.DescribeQuorumRequest;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.requests.ResponseHeader;
import org.apache.kafka.common.requests.DescribeTopicPartitionsRequest;

public class Responses {
    private static Socket socket;
    private static Path folder;
    private static String logDirs;

    public static void main(String[] args) throws IOException {
        socket = new Socket(args[0], Integer.parseInt(args[1]));
        folder = Path.of(args[2]);
        logDirs = args[3];

        var topics = List.of("mail.v1", "missing", "orders").stream().map(n -> new TopicRequest().setName(n)).toList();
        var partitions = new DescribeTopicPartitionsRequestData().setTopics(topics);
        short v = 0;
        var answer = ask(new DescribeTopicPartitionsRequest(partitions, v), v);
        save("describe-topic-partitions", v, DescribeTopicPartitionsResponseDataJsonConverter.write(
            new DescribeTopicPartitionsResponseData(answer, v), v));

        for (short version : ends(ApiKeys.DESCRIBE_QUORUM)) {
            var data = DescribeQuorumRequest.singletonRequest(new TopicPartition("__cluster_metadata", 0));
            answer = ask(new DescribeQuorumRequest.Builder(data).build(version), version);
            save("describe-quorum", version, DescribeQuorumResponseDataJsonConverter.write(
                new DescribeQuorumResponseData(answer, version), version));
        }
        for (short version : ends(ApiKeys.DESCRIBE_LOG_DIRS)) {
            var data = new DescribeLogDirsRequestData().setTopics(null);
            answer = ask(new DescribeLogDirsRequest(data, version), version);
            save("describe-log-dirs", version, DescribeLogDirsResponseDataJsonConverter.write(
                new DescribeLogDirsResponseData(answer, version), version));
        }
        save("describe-topic-partitions-filled", v, DescribeTopicPartitionsResponseDataJsonConverter.write(filled(), v));
    }

    private static short[] ends(ApiKeys api) {
        return new short[] {api.oldestVersion(), api.latestVersion()};
    }

    private static DescribeTopicPartitionsResponseData filled() {
        var data = new DescribeTopicPartitionsResponseData().setNextCursor(
            new Cursor().setTopicName("orders").setPartitionIndex(2));
        data.topics().add(new DescribeTopicPartitionsResponseTopic()
            .setName("orders").setTopicId(Uuid.fromString("nK53SmVCTcqSMBTDH5nkeA")).setPartitions(List.of(
                new DescribeTopicPartitionsResponsePartition()
                    .setPartitionIndex(0).setLeaderId(1).setLeaderEpoch(5).setReplicaNodes(List.of(1, 2, 3))
                    .setIsrNodes(List.of(1)).setEligibleLeaderReplicas(List.of(2)).setLastKnownElr(null)
                    .setOfflineReplicas(List.of(2, 3)),
                new DescribeTopicPartitionsResponsePartition()
                    .setErrorCode((short) 5).setPartitionIndex(1).setLeaderId(-1).setLeaderEpoch(7)
                    .setReplicaNodes(List.of(2, 3)).setIsrNodes(List.of()).setEligibleLeaderReplicas(List.of())
                    .setLastKnownElr(List.of(3)).setOfflineReplicas(List.of(2, 3)))));
        return data;
    }

    private static ByteBufferAccessor ask(AbstractRequest request, short version) throws IOException {
        var header = new RequestHeader(request.apiKey(), version, "responses", 1);
        ByteBuffer bytes = request.serializeWithHeader(header);
        socket.getOutputStream().write(ByteBuffer.allocate(4).putInt(bytes.remaining()).array());
        socket.getOutputStream().write(bytes.array(), bytes.arrayOffset() + bytes.position(), bytes.remaining());
        var in = new DataInputStream(socket.getInputStream());
        ByteBuffer answer = ByteBuffer.wrap(in.readNBytes(in.readInt()));
        ResponseHeader.parse(answer, header.headerVersion() == 0 ? (short) 0 : request.apiKey().responseHeaderVersion(version));
        return new ByteBufferAccessor(answer);
    }

    private static void save(String name, short version, JsonNode json) throws IOException {
        String text = json.toPrettyString().replace(logDirs, "/var/lib/kafka/data") + "\n";
        Files.write(folder.resolve(name + ".v" + version + ".json"), text.getBytes(StandardCharsets.UTF_8));
    }
}
