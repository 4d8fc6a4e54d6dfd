"""The study folder: what was asked, what was resolved for this machine, and the files of every trial."""
