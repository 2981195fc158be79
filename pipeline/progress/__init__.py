"""What a person sees while a command works, and where its time went."""
