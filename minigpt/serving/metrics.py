"""Figures of the server, for Prometheus."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from minigpt.serving.scheduler import Scheduler

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """What the server counts.

    Args:
      scheduler: the texts that run and wait.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self.registry = registry = CollectorRegistry()
        labels = ("endpoint", "status")
        self.requests = Counter("minigpt_requests", "Answered requests.", labels, registry=registry)
        self.request_seconds = Histogram(
            "minigpt_request_seconds",
            "Time from a request to the end of its answer.",
            ("endpoint",),
            buckets=_SECONDS,
            registry=registry,
        )
        self.first_token_seconds = Histogram(
            "minigpt_first_token_seconds",
            "Time from a request to its first tokens, including time in the queue.",
            buckets=_SECONDS,
            registry=registry,
        )
        self.prompt_tokens = Counter(
            "minigpt_prompt_tokens", "Tokens of prompts.", registry=registry
        )
        self.new_tokens = Counter("minigpt_new_tokens", "Generated tokens.", registry=registry)
        running = Gauge("minigpt_running_texts", "Texts being generated.", registry=registry)
        running.set_function(lambda: scheduler.running)
        waiting = Gauge(
            "minigpt_waiting_texts", "Texts that wait for an engine.", registry=registry
        )
        waiting.set_function(lambda: scheduler.waiting)
