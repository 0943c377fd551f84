"""The messages of brokers and controllers that are evidence, as data.

Texts: Kafka's source of 3.9, the class files of 3.9.1, 4.0.2, 4.1.1, 4.3.1 and 4.4.0, and what 3.9.1, 4.0.2, 4.1.1,
4.2.0, 4.3.1 and 4.4.0 wrote. A pattern's groups are columns of tables.BROKER_LOG_EVENTS. Patterns match from the
message's first character, so that what a client puts into a name or an error cannot pass for a broker's word.
"""

from __future__ import annotations

from evidence.broker_logs.node_messages import NODE_MESSAGES
from evidence.broker_logs.replica_messages import REPLICA_MESSAGES

MESSAGES = (*REPLICA_MESSAGES, *NODE_MESSAGES)
KINDS = tuple(dict.fromkeys(message.kind for message in MESSAGES))
