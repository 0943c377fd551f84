"""The adversary: a simulated cluster that follows Kafka's replication protocol, keeps the truth, and shows of it what a
site would have. `python -m tests.simulator` compares verdicts with the truth; setup.py says what a life is made of."""
