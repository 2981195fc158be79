"""What happens between a folder of images and a checkpoint."""
