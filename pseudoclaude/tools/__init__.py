"""What agents can do. One file per family; :func:`pseudoclaude.tool` makes a tool of a plain function."""
