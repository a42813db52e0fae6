"""What the figures of the README come from: ours beside what a user would pick instead, in turn in one run."""
