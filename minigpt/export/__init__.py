"""Export: writes a trained model for other programs; one format per file."""
