"""Benchmarks of dalembert beside the tools that its users would otherwise pick: `python -m benchmarks`."""
