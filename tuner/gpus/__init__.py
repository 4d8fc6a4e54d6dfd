"""Graphics cards: what they hold, what they draw, how warm they are, and their power caps. One file a vendor."""
