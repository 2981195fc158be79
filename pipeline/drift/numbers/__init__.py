"""A comparison as numbers: sums that merge, by column, by size, by sample."""
