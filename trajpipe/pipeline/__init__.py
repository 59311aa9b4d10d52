"""The pipeline: stage functions over sources, demos, store, export and checks; plain Python, no dagster."""
