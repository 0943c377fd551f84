"""What a window lost. Every bound, and every yes, is proven by evidence or it is None, open or False: a fact that only
may be true is never one here. Short words beside those of replay/terms:

undisturbed: no other processes than the elected ones wrote what the broker's log has.
shared: up to there the winner's log is the partition's log.
still: replicas last seen when their brokers knew that nobody led any more.
"""
