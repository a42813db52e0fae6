"""Who is in a team, what they are called, and what they have to do."""
