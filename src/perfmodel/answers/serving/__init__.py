"""Requests and concurrency in, time to first token, time a token and throughput out."""
