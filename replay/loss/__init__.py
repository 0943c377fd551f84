"""What a window lost. Every bound, and every yes, is proven by evidence or it is None, open or False: a fact that only
may be true is never one here. The room's short words:

settled: the replica was in sync, on a running broker, so long that its checkpoint files show that leader epoch.
steady: the broker was active, as one process, all the while. learned: a process that clients reach knew that it leads.
undisturbed: no other processes than the elected ones wrote what the broker's log has.
carries: the winner led last, and still has that log. kept: what a replica has that was a member once.
shared: up to there the winner's log is the partition's log. sound: leader epochs only rise.
below: |ISR| < min ISR on every broker while the row was in force. frozen: the row since which that holds.
still: replicas last seen when their brokers knew that nobody led any more.
"""
