"""Worker processes: the engine that fills the store, isolation, interpreters, devices."""
