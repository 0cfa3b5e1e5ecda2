"""What the files of a run say about its training. No module imports TensorFlow when it is imported."""
