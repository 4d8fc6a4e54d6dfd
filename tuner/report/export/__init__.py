"""A recommendation as a file that runs elsewhere: scripts, services, containers, configurations of other tools."""
