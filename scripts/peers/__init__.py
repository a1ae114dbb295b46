"""One PPO iteration of air combat by several libraries; see scripts/bench_peers.py."""
