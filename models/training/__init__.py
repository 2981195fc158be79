"""Train a recipe through Lightning Fabric, with checkpoints, losses and metrics."""
