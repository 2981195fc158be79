"""What a person reads: terminal, HTML, Markdown; all of them from run.json."""
