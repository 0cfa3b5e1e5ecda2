"""Web pages that are one file each: the page of a model."""
