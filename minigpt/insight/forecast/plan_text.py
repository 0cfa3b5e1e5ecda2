"""A forecast as lines for people."""

from minigpt.insight.forecast.forecast import Forecast
from minigpt.insight.forecast.loss_curves import ExpectedLoss
from minigpt.training.console import count, duration, rounded


def plan_text(forecast: Forecast) -> str:
    """Returns the forecast, one line per subject, and a line for each alternative."""
    times, training = forecast.times, forecast.training
    planned = training["epochs"] * training["steps_per_epoch"]
    lines = dict(forecast.lines)
    lines["Training"] = _training_line(forecast)
    if times.steps < planned:
        lines["Time limit"] = (
            f"training ends after about {times.steps:,} of {planned:,} steps (training.max_minutes = "
            f"{training['max_minutes']:g})"
        )
    lines["Memory"] = f"about {forecast.memory_bytes / 1e6:,.0f} MB at its peak"
    parts = ", ".join(
        f"{part} {duration(seconds)}" for part, seconds in times.parts.items() if seconds >= 0.5
    )
    lines["Time"] = (
        f"about {duration(times.first_epoch)} for the first epoch, {duration(times.total)} in all "
        f"({parts})"
    )
    lines["Loss"] = loss_text(forecast.loss)
    text = [f"{name:<12}{line}" for name, line in lines.items()]
    for alternative in forecast.alternatives:
        text.append(f"{alternative.minutes:g} min: {alternative.command}")
        text.append(f"  {loss_text(alternative.loss)}")
    return "\n".join(text)


def loss_text(expected: ExpectedLoss) -> str:
    """Returns the expected loss in words."""
    if expected.loss is None or not expected.is_forecast:
        return f"no forecast: {expected.basis}"
    low, high = expected.loss
    text = f"{low:.2f} to {high:.2f} nats per token"
    if expected.bits_per_byte:
        low, high = expected.bits_per_byte
        text += f", {low:.2f} to {high:.2f} bits per byte"
    return f"{text}; {expected.basis}"


def _training_line(forecast: Forecast) -> str:
    training = forecast.training
    accumulated = f" x {training['accumulate_steps']}" if training["accumulate_steps"] > 1 else ""
    length = training["sequence_length"]
    batch = f"{training['batch_size']}{accumulated}" + (
        f" x {length} tokens" if length else " pairs"
    )
    return (
        f"{count(training['epochs'], 'epoch')} of {count(training['steps_per_epoch'], 'step')} of "
        f"{batch}; {rounded(training['passes'])} passes over the text in {count(training['steps'], 'step')}"
    )
