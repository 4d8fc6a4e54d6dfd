"""The workload: its texts, prompts, requests and cells."""
