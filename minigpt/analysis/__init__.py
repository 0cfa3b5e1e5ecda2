"""What can be said about a training: baselines, memorization, verdicts, forecasts. Imports no TensorFlow by itself."""
