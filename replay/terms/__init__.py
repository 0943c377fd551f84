"""Who led a partition as which process, whose log stayed what it was, and what the protocol promises of both. What a
window lost (replay/loss) follows from it. Every yes is proven: a fact that only may be true is False. The room's short
words:

settled: the replica was in sync, on a running broker, so long that its checkpoint files show that leader epoch.
steady: the broker was active, as one process, all the while. learned: a process that clients reach knew that it leads.
carries: the winner led last, and still has that log. kept: what a replica has that was a member once.
sound: leader epochs only rise. below: |ISR| < min ISR on every broker while the row was in force. frozen: the row
since which that holds.
"""
