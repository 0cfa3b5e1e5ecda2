"""What can be said about a training: baselines, memorization, verdicts, forecasts. No TensorFlow."""
