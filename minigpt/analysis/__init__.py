"""What a trained model has learned: copied passages. Imports TensorFlow only where a model needs it."""
