"""The story of a study: baseline, search, confirm. Speaks to everything else through the protocols it defines."""
