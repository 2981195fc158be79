"""In-process runtimes: what executes an artifact, one module each."""
