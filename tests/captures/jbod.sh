#!/bin/bash
# How jbod-4.0.2.tar.xz and jbod-4.1.1.tar.xz were made: one controller, four brokers with two log directories each, broken
# on purpose: killed, stopped, reassigned with a broker down, a reassignment cancelled, unclean and preferred elections, a
# failed disk. Kept: the controller's folder without index files, its properties without log.dirs.
# usage: jbod.sh KAFKA_RELEASE FOLDER_OF_ITS_JARS WORK_FOLDER FIRST_PORT
# The jars: org.apache.kafka:kafka_2.13 and kafka-tools of that release with all that they need, and slf4j-simple.
set -f
V=$1; L=$2; D=$3; P=$4; rm -rf $D; mkdir -p $D; cd $D
J="java -Xmx320m -XX:+UseSerialGC -Dorg.slf4j.simpleLogger.defaultLogLevel=error -cp $L/*"
T="java -Xmx200m -XX:TieredStopAtLevel=1 -Dorg.slf4j.simpleLogger.defaultLogLevel=error -cp $L/*"
C=$((P+90)); BS=127.0.0.1:$((P+1)),127.0.0.1:$((P+2)),127.0.0.1:$((P+3)),127.0.0.1:$((P+4))
cat > c.properties <<X
process.roles=controller
node.id=3000
controller.quorum.voters=3000@127.0.0.1:$C
listeners=CONTROLLER://127.0.0.1:$C
controller.listener.names=CONTROLLER
log.dirs=$D/ctrl
broker.session.timeout.ms=4000
unclean.leader.election.interval.ms=15000
leader.imbalance.check.interval.seconds=20
X
for b in 1 2 3 4; do cat > b$b.properties <<X
process.roles=broker
node.id=$b
controller.quorum.voters=3000@127.0.0.1:$C
listeners=PLAINTEXT://127.0.0.1:$((P+b))
controller.listener.names=CONTROLLER
log.dirs=$D/b$b-x,$D/b$b-y
broker.heartbeat.interval.ms=800
broker.session.timeout.ms=4000
replica.lag.time.max.ms=4000
num.network.threads=1
num.io.threads=2
offsets.topic.replication.factor=3
X
done
F=""; [ $V = 4.0.2 ] && F="--feature eligible.leader.replicas.version=1"
for f in c b1 b2 b3 b4; do $T kafka.tools.StorageTool format -t AAAAAAAAQACAAAAAAAAAAA -c $f.properties $F > fmt-$f.log 2>&1 || $T kafka.tools.StorageTool format -t AAAAAAAAQACAAAAAAAAAAA -c $f.properties > fmt-$f.log 2>&1; done
start(){ $J kafka.Kafka $1.properties > $1.log 2>&1 & echo $! > $1.pid; }
kill9(){ kill -9 $(cat $1.pid); }
term(){ kill $(cat $1.pid); while kill -0 $(cat $1.pid) 2>/dev/null; do sleep 0.3; done; }
topic(){ $T org.apache.kafka.tools.TopicCommand --bootstrap-server $BS "$@" 2>&1 | tail -2; }
start c; for b in 1 2 3 4; do start b$b; done; sleep 14
topic --create --topic a --partitions 6 --replication-factor 3 --config min.insync.replicas=2
topic --create --topic b --partitions 4 --replication-factor 2 --config min.insync.replicas=1
topic --create --topic c --partitions 4 --replication-factor 3 --config min.insync.replicas=2 --config unclean.leader.election.enable=true
topic --create --topic d --partitions 3 --replication-factor 3 --config min.insync.replicas=3
sleep 4
kill9 b4; sleep 7; kill9 b3; sleep 7; kill9 b2; sleep 7
start b3; sleep 9; start b4; sleep 3; start b2; sleep 12
term b1; sleep 3; start b1; sleep 10
echo '{"version":1,"partitions":[{"topic":"a","partition":0,"replicas":[4,2,1]},{"topic":"a","partition":1,"replicas":[1,3]},{"topic":"b","partition":0,"replicas":[3,4]},{"topic":"b","partition":1,"replicas":[1,2,4]}]}' > r.json
$T org.apache.kafka.tools.reassign.ReassignPartitionsCommand --bootstrap-server $BS --reassignment-json-file r.json --execute 2>&1 | tail -1
sleep 8
kill9 b4; sleep 2
echo '{"version":1,"partitions":[{"topic":"a","partition":2,"replicas":[4,3,1]},{"topic":"c","partition":0,"replicas":[4,1,2]},{"topic":"d","partition":0,"replicas":[2,1]}]}' > r2.json
$T org.apache.kafka.tools.reassign.ReassignPartitionsCommand --bootstrap-server 127.0.0.1:$((P+1)) --reassignment-json-file r2.json --execute 2>&1 | tail -1
sleep 6
$T org.apache.kafka.tools.reassign.ReassignPartitionsCommand --bootstrap-server 127.0.0.1:$((P+1)) --reassignment-json-file r2.json --cancel 2>&1 | tail -1
start b4; sleep 10
kill9 b1; sleep 6; kill9 b2; sleep 1; kill9 b3; sleep 1; kill9 b4; sleep 9
start b4; sleep 10
$T org.apache.kafka.tools.LeaderElectionCommand --bootstrap-server 127.0.0.1:$((P+4)) --election-type UNCLEAN --all-topic-partitions 2>&1 | tail -1
start b2; start b1; sleep 12; start b3; sleep 10
$T org.apache.kafka.tools.LeaderElectionCommand --bootstrap-server $BS --election-type PREFERRED --all-topic-partitions 2>&1 | tail -1
term b2; sleep 2; term b3; sleep 2
$T kafka.admin.ConfigCommand --bootstrap-server 127.0.0.1:$((P+1)) --alter --entity-type topics --entity-name a --add-config min.insync.replicas=1 2>&1 | tail -1
start b2; start b3; sleep 12
# a disk dies: its folder is no folder any more
rm -rf b2-y; echo gone > b2-y; sleep 5
topic --create --topic e --partitions 6 --replication-factor 3
sleep 8; topic --delete --topic b; sleep 3
for b in 1 2 3 4; do kill -9 $(cat b$b.pid) 2>/dev/null; done; sleep 6; kill -9 $(cat c.pid); echo finished
