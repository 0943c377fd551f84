#!/bin/bash
# How logs-3.9.1.tar.xz, logs-4.0.2.tar.xz and logs-4.1.1.tar.xz were made: one controller and two brokers with the logs
# that Kafka writes by its own log4j configuration; broker 2's zone is Asia/Kolkata. The leader of `led` is frozen, killed,
# and elected uncleanly while the other, which holds 30 records more, is frozen; that one then cuts its log, is killed and
# started again; the first stops cleanly and starts again. Nothing but text of log4j is in logs/. Kept: the controller's
# folder without index files; log directories read /var/lib/kafka/node-<id>/data in every text.
# usage: logs.sh KAFKA_RELEASE FOLDER_OF_ITS_JARS WORK_FOLDER FIRST_PORT
# The jars: org.apache.kafka:kafka_2.13 and kafka-tools of that release with all that they need, and log4j-slf4j-impl and
# log4j-core 2.24.3 (3.9.1: slf4j-reload4j).
set -f
V=$1; L=$2; D=$3; P=$4; rm -rf $D; mkdir -p $D; cd $D
cat > log4j2.properties <<X
status=warn
appender.f.type=File
appender.f.name=F
appender.f.fileName=\${sys:logs}/server.log
appender.f.layout.type=PatternLayout
appender.f.layout.pattern=[%d] %p %m (%c)%n
appender.s.type=File
appender.s.name=S
appender.s.fileName=\${sys:logs}/state-change.log
appender.s.layout.type=PatternLayout
appender.s.layout.pattern=[%d] %p %m (%c)%n
appender.c.type=File
appender.c.name=C
appender.c.fileName=\${sys:logs}/controller.log
appender.c.layout.type=PatternLayout
appender.c.layout.pattern=[%d] %p %m (%c)%n
rootLogger.level=INFO
rootLogger.appenderRefs=f
rootLogger.appenderRef.f.ref=F
logger.s.name=state.change.logger
logger.s.level=INFO
logger.s.additivity=false
logger.s.appenderRefs=s
logger.s.appenderRef.s.ref=S
logger.c.name=org.apache.kafka.controller
logger.c.level=INFO
logger.c.additivity=false
logger.c.appenderRefs=c
logger.c.appenderRef.c.ref=C
X
cat > log4j.properties <<X
log4j.rootLogger=INFO, F
log4j.appender.F=org.apache.log4j.FileAppender
log4j.appender.F.File=\${logs}/server.log
log4j.appender.F.layout=org.apache.log4j.PatternLayout
log4j.appender.F.layout.ConversionPattern=[%d] %p %m (%c)%n
log4j.appender.S=org.apache.log4j.FileAppender
log4j.appender.S.File=\${logs}/state-change.log
log4j.appender.S.layout=org.apache.log4j.PatternLayout
log4j.appender.S.layout.ConversionPattern=[%d] %p %m (%c)%n
log4j.appender.C=org.apache.log4j.FileAppender
log4j.appender.C.File=\${logs}/controller.log
log4j.appender.C.layout=org.apache.log4j.PatternLayout
log4j.appender.C.layout.ConversionPattern=[%d] %p %m (%c)%n
log4j.logger.state.change.logger=INFO, S
log4j.additivity.state.change.logger=false
log4j.logger.org.apache.kafka.controller=INFO, C
log4j.additivity.org.apache.kafka.controller=false
X
LC="-Dlog4j2.configurationFile=$D/log4j2.properties"; [ $V = 3.9.1 ] && LC="-Dlog4j.configuration=file:$D/log4j.properties"
T="nice java -Xmx160m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp $L/*"
C=$((P+90)); BS=127.0.0.1:$((P+1)),127.0.0.1:$((P+2))
cat > c3000.properties <<X
process.roles=controller
node.id=3000
controller.quorum.voters=3000@127.0.0.1:$C
listeners=CONTROLLER://127.0.0.1:$C
controller.listener.names=CONTROLLER
log.dirs=$D/data-3000
broker.session.timeout.ms=4000
X
for b in 1 2; do cat > c$b.properties <<X
process.roles=broker
node.id=$b
controller.quorum.voters=3000@127.0.0.1:$C
listeners=PLAINTEXT://127.0.0.1:$((P+b))
controller.listener.names=CONTROLLER
log.dirs=$D/data-$b
broker.heartbeat.interval.ms=800
broker.session.timeout.ms=4000
replica.lag.time.max.ms=2500
num.network.threads=1
num.io.threads=2
offsets.topic.replication.factor=1
X
done
for f in 3000 1 2; do $T kafka.tools.StorageTool format -t AAAAAAAAQACAAAAAAAAAAA -c c$f.properties > fmt-$f.log 2>&1; mkdir -p logs/$f; done
start(){ TZX=UTC; [ $1 = 2 ] && TZX=Asia/Kolkata; nice java -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Duser.timezone=$TZX -Dlogs=$D/logs/$1 $LC -cp "$L/*" kafka.Kafka c$1.properties > out-$1.log 2>&1 & echo $! > $1.pid; }
kill9(){ kill -9 $(cat $1.pid); }
term(){ kill $(cat $1.pid); while kill -0 $(cat $1.pid) 2>/dev/null; do sleep 0.3; done; }
topic(){ $T org.apache.kafka.tools.TopicCommand --bootstrap-server $BS "$@" 2>&1 | tail -2; }
produce(){ $T org.apache.kafka.tools.ProducerPerformance --topic $1 --num-records $2 --record-size 100 --throughput -1 --producer-props bootstrap.servers=$BS acks=all delivery.timeout.ms=20000 request.timeout.ms=5000 linger.ms=0 2>&1 | tail -1; }
start 3000; start 1; start 2; sleep 16
topic --create --topic led --replica-assignment 1:2 --config min.insync.replicas=1 --config unclean.leader.election.enable=true
topic --create --topic two.x --replica-assignment 2:1,1:2 --config min.insync.replicas=1
produce led 20
kill -STOP $(cat 1.pid); sleep 3; kill -CONT $(cat 1.pid); sleep 4
kill9 1; sleep 6; produce led 30
kill -STOP $(cat 2.pid); sleep 7
start 1; sleep 14
produce led 5
kill -CONT $(cat 2.pid); sleep 8; kill9 2; sleep 1; start 2; sleep 13
term 1; sleep 1; start 1; sleep 12
term 2; term 1; term 3000; echo finished $V
